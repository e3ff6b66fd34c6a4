// Package s3 is an object store in a bucket of any server that speaks S3.
//
// It promises that a Put that returned nil was proved by the server's answer or
// by reading it back; that only the store's own NoSuchKey for a GET is
// ErrNotFound, and no other 404, status, timeout or page of a proxy ever is; and
// that Erase and Residue see every version and delete marker, and every
// unfinished upload that the server tells of (see eachUploads).
// It knows names and bytes, and nothing of tenants, keys or texts.
//
// Every object lies under one prefix of the bucket, so that deployments may
// share it. A scratch folder under that prefix, which no listing shows, holds
// what Check and Examine write for a moment.
//
// Requests are kept to what old and small servers know: single writes with
// Content-MD5 and a signed hash of the body, no trailing checksums, deletes of
// at most 1,000 versions at once. Put asks the server to refuse a used name; the
// refusal is never believed but compared with the bytes there, and a server that
// ignores the question overwrites equal bytes with equal bytes, because a name is
// the hash of what it names.
package s3
