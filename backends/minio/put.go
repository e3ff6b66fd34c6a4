package minio

import (
	"bytes"
	"context"
	"crypto/md5" // the checksum that every S3 server knows
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/minio/minio-go/v7"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/backends"
)

// upload is an object on its way.
type upload struct {
	name   string
	data   []byte
	md5    [md5.Size]byte
	sha256 [sha256.Size]byte
}

func newUpload(name string, data []byte) upload {
	return upload{name, data, md5.Sum(data), sha256.Sum256(data)}
}

// ownHash reports whether the name is the hash of the bytes, so that no other
// bytes are ever right under it.
func (u upload) ownHash() bool {
	last := u.name[strings.LastIndexByte(u.name, '/')+1:]
	return last == hex.EncodeToString(u.sha256[:])
}

// Put implements backends.Store. The write asks not to replace what is there;
// whoever answers that something is has said nothing of its bytes, so they are
// read back and compared. Where the server knows no such condition, bytes whose
// name is their own hash are written all the same, and others after a read that
// found nothing. Wrong bytes under their hash are replaced.
func (s *Store) Put(ctx context.Context, name string, data []byte) error {
	if err := backends.CheckName(name); err != nil {
		return fmt.Errorf("minio: put: %w", err)
	}
	if int64(len(data)) > s.maxObject {
		return fmt.Errorf("minio: put %s: %d bytes: %w", name, len(data), blobd.ErrTooLarge)
	}
	u := newUpload(name, data)
	_, err := try(ctx, s, "put "+name, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, s.put(ctx, u)
	})
	return err
}

func (s *Store) put(ctx context.Context, u upload) error {
	err := s.send(ctx, u, true)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errUnproved), code(err) == "PreconditionFailed":
		return s.confirm(ctx, u)
	case unsupported(err):
		return s.putPlain(ctx, u)
	}
	return err
}

// confirm reads back what lies under the name.
func (s *Store) confirm(ctx context.Context, u upload) error {
	err := s.compare(ctx, u)
	switch {
	case absent(err):
		return errUnproved
	case errors.Is(err, blobd.ErrCorrupt) && u.ownHash():
		return s.replace(ctx, u)
	}
	return err
}

// putPlain is a put on a server that knows no conditions.
func (s *Store) putPlain(ctx context.Context, u upload) error {
	if u.ownHash() {
		return s.replace(ctx, u)
	}
	err := s.compare(ctx, u)
	if absent(err) {
		return s.replace(ctx, u)
	}
	return err
}

// replace writes whatever is there.
func (s *Store) replace(ctx context.Context, u upload) error {
	err := s.send(ctx, u, false)
	if !errors.Is(err, errUnproved) {
		return err
	}
	err = s.compare(ctx, u)
	if absent(err) || errors.Is(err, blobd.ErrCorrupt) {
		return errUnproved
	}
	return err
}

// compare is nil if the object holds these bytes, and ErrCorrupt if others.
func (s *Store) compare(ctx context.Context, u upload) error {
	there, err := s.getUpTo(ctx, u.name, int64(len(u.data)))
	switch {
	case errors.Is(err, blobd.ErrTooLarge), err == nil && !bytes.Equal(there, u.data):
		return fmt.Errorf("other bytes are there: %w", blobd.ErrCorrupt)
	}
	return err
}

// send is one request. Nil means that the answer proves what is stored.
func (s *Store) send(ctx context.Context, u upload, onlyNew bool) error {
	o := minio.PutObjectOptions{DisableContentSha256: true, DisableMultipart: true} // one signed hash, no framing
	if onlyNew {
		o.SetMatchETagExcept("*")
	}
	info, err := s.client.PutObject(ctx, s.bucket, s.key(u.name), bytes.NewReader(u.data), int64(len(u.data)),
		base64.StdEncoding.EncodeToString(u.md5[:]), hex.EncodeToString(u.sha256[:]), o)
	if err != nil {
		return err
	}
	// Under some kinds of encryption an ETag is no MD5.
	if info.ETag != hex.EncodeToString(u.md5[:]) {
		return errUnproved
	}
	return nil
}
