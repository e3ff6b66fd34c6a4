package seal

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"

	"github.com/blobd/blobd"
)

const labelRepeat = "blobd/v1/repeat"

// Content is what makes two puts to one execution the same.
type Content struct {
	Class       string
	Kind        blobd.Kind
	ContentType string
	Audience    []byte // canonical bytes; empty for none
	Digest      blobd.Digest
}

// RepeatTag returns the HMAC-SHA-256 by which an execution finds a repeat. Who
// has no tag key can match it against no guess. Different contents never share
// a message: every part carries its length or has only one.
func RepeatTag(tagKey *blobd.Key, c Content) [32]byte {
	message := make([]byte, 0, 512)
	message = append(message, labelRepeat...)
	message = appendPart(message, c.Class)
	message = appendPart(message, string(c.Kind))
	message = appendPart(message, c.ContentType)
	message = appendPart(message, string(c.Audience))
	message = append(message, c.Digest[:]...)
	m := hmac.New(sha256.New, tagKey.Bytes())
	_, _ = m.Write(message)
	var tag [32]byte
	m.Sum(tag[:0])
	return tag
}

func appendPart(b []byte, part string) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(len(part)))
	return append(b, part...)
}
