package s3

import (
	"bytes"
	"context"
	"crypto/md5" // the protocol's ETag and Content-MD5, against damage on the way only
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/backends"
)

// Put implements backends.Store. The bytes are sent with the question to refuse
// a used name. A refusal is settled by reading what is there: equal bytes are
// success, others ErrCorrupt. A server that does not know the question is read
// before it is written.
func (s *Store) Put(ctx context.Context, name string, data []byte) error {
	if err := backends.CheckName(name); err != nil {
		return classify("put", err)
	}
	return classify("put", s.put(ctx, s.key(name), data))
}

func (s *Store) put(ctx context.Context, key string, data []byte) error {
	sum := md5.Sum(data)
	flukes := 0
	return s.do(ctx, func(ctx context.Context) error {
		err := s.tryPut(ctx, key, data, sum)
		if isFluke(err) && flukes < flukesMost {
			flukes++
			return fmt.Errorf("%w: %w", errAgain, err)
		}
		return err
	})
}

// flukesMost is how often a put repeats what may only be a race in the server.
const flukesMost = 4

func (s *Store) tryPut(ctx context.Context, key string, data []byte, sum [md5.Size]byte) error {
	if !s.unconditional.Load() {
		err := s.putOnce(ctx, key, data, sum, aws.String("*"))
		switch {
		case isOccupied(err):
			return s.compare(ctx, key, data)
		case !isUnknown(err):
			return err
		}
		s.unconditional.Store(true)
	}
	err := s.compare(ctx, key, data)
	if !errors.Is(err, errAgain) {
		return err
	}
	return s.putOnce(ctx, key, data, sum, nil)
}

func (s *Store) putOnce(ctx context.Context, key string, data []byte, sum [md5.Size]byte, ifNoneMatch *string) error {
	out, err := s.client.PutObject(ctx, &s3.PutObjectInput{
		Bucket: &s.bucket, Key: &key, Body: bytes.NewReader(data), ContentLength: aws.Int64(int64(len(data))),
		ContentType: aws.String("application/octet-stream"),
		ContentMD5:  aws.String(base64.StdEncoding.EncodeToString(sum[:])),
		IfNoneMatch: ifNoneMatch,
	})
	if err != nil {
		return err
	}
	// The ETag of a plain object is the hash of what arrived. Encrypting stores
	// and some others give another: there, what was stored is read.
	if strings.Trim(aws.ToString(out.ETag), `"`) == hex.EncodeToString(sum[:]) {
		return nil
	}
	return s.compare(ctx, key, data)
}

// compare reads an object: nil if it is data, ErrCorrupt if it is something
// else, errAgain if there is none.
func (s *Store) compare(ctx context.Context, key string, data []byte) error {
	got, err := s.getOnce(ctx, key, int64(len(data)))
	switch {
	case errors.Is(err, blobd.ErrNotFound):
		return fmt.Errorf("%w: it is absent", errAgain)
	case errors.Is(err, blobd.ErrTooLarge), err == nil && !bytes.Equal(got, data):
		return fmt.Errorf("other bytes are there: %w", blobd.ErrCorrupt)
	}
	return err
}

// Get implements backends.Store.
func (s *Store) Get(ctx context.Context, name string) ([]byte, error) {
	if err := backends.CheckName(name); err != nil {
		return nil, classify("get", err)
	}
	data, err := s.get(ctx, s.key(name))
	if err != nil {
		return nil, classify("get", err)
	}
	return data, nil
}

func (s *Store) get(ctx context.Context, key string) (data []byte, err error) {
	err = s.do(ctx, func(ctx context.Context) error {
		data, err = s.getOnce(ctx, key, s.maxObject)
		return err
	})
	if err != nil {
		return nil, err
	}
	return data, nil
}

// getOnce reads an object of at most limit bytes into memory; a longer one is
// ErrTooLarge. The answer's body is always read to its end or given up, and
// closed.
func (s *Store) getOnce(ctx context.Context, key string, limit int64) ([]byte, error) {
	out, err := s.client.GetObject(ctx, &s3.GetObjectInput{Bucket: &s.bucket, Key: &key})
	if isAbsence(err) {
		return nil, fmt.Errorf("%w (%v)", blobd.ErrNotFound, err)
	}
	if err != nil {
		return nil, err
	}
	defer discard(out.Body)
	if out.ContentLength != nil && *out.ContentLength >= 0 {
		return readExactly(out.Body, *out.ContentLength, limit)
	}
	data, err := io.ReadAll(io.LimitReader(out.Body, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > limit {
		return nil, tooLarge(limit)
	}
	return data, nil
}

func readExactly(body io.Reader, size, limit int64) ([]byte, error) {
	if size > limit {
		return nil, tooLarge(limit)
	}
	data := make([]byte, size)
	if _, err := io.ReadFull(body, data); err != nil {
		return nil, fmt.Errorf("the answer broke off: %w", err)
	}
	return data, nil
}

func tooLarge(limit int64) error {
	return fmt.Errorf("an object of more than %d bytes: %w", limit, blobd.ErrTooLarge)
}

// discardMost is how much of an unread body is read so that its connection can
// be used again.
const discardMost = 64 << 10

// discard ends an answer; how that goes changes nothing that was read.
func discard(body io.ReadCloser) {
	_, _ = io.CopyN(io.Discard, body, discardMost)
	_ = body.Close()
}
