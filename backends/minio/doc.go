// Package minio is an object store on a server that speaks S3, through minio-go.
//
// It promises the contract of package backends on MinIO, versitygw, Amazon S3
// and what is like them:
//
//   - A put is one request that carries the MD5 and the SHA-256 of the bytes,
//     which every S3 server checks, and no trailer, which not every one knows. It
//     is acknowledged when the answer's ETag is the MD5 of what was sent, or the
//     object was read back and compared. An answer "it is there already" is only
//     a reason to read back.
//   - Absent is what the store's own XML calls NoSuchKey, in answer to a read of
//     the object. A missing bucket, any other 404, a refusal, a redirect or an
//     answer in another shape never is.
//   - An erasure lists versions, markers and unfinished uploads, deletes each by
//     its id in batches of at most 1,000, and takes for deleted only what the
//     answer names as deleted. A prefix is listed again until nothing is left but
//     what the store refuses to delete, a name only where it had more than a page;
//     what is absent then is for Residue to say.
//
// Requests are tried again after passing faults, with jittered back-off, inside
// the caller's deadline; minio-go's own retries are off.
//
// Every object lies under one prefix of the bucket, so that deployments may
// share it. A scratch folder under that prefix, which no listing shows, holds
// what Check and Examine write for a moment.
//
// MinIO lists unfinished uploads by an exact key or for a whole bucket and never
// for a folder, and forgets in the latter those begun before it was started. So
// where a server does so, an erasure of a prefix asks for the whole bucket and
// for each key that it found; an older upload of a key that has no version is
// beyond what such a server tells. blobd itself begins no uploads.
package minio
