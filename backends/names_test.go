package backends_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/backends"
)

// A store with folders cannot hold an object where another's folder is.
func TestNoNameIsTheFolderOfAnother(t *testing.T) {
	name := rapid.Custom(func(t *rapid.T) string {
		tenant := rapid.StringMatching(`[0-9a-f]{32}`).Draw(t, "tenant")
		var tag blobd.ExecutionTag
		copy(tag[:], rapid.SliceOfN(rapid.Byte(), len(tag), len(tag)).Draw(t, "execution"))
		var ref blobd.Ref
		copy(ref[:], rapid.SliceOfN(rapid.Byte(), len(ref), len(ref)).Draw(t, "ref"))
		return backends.BlobName(tenant, tag, ref)
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b := name.Draw(t, "a"), name.Draw(t, "b")
		if a != b && strings.HasPrefix(a, b) {
			t.Fatalf("%s is the folder of %s", b, a)
		}
		for _, own := range []string{backends.IdentityName, backends.JournalPrefix + "log/0000000000000001"} {
			if strings.HasPrefix(a, own) || strings.HasPrefix(own, a) {
				t.Fatalf("%s and %s", own, a)
			}
		}
		parts, ok := backends.ParseBlobName(a)
		if !ok || !strings.HasSuffix(a, parts.Ref.Hex()) {
			t.Fatalf("%s reads as %+v, %v", a, parts, ok)
		}
	})
}
