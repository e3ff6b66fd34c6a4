package api

import (
	"encoding/base64"

	"github.com/blobd/blobd/api/wire"
)

// maxLooked bounds the rows that one page of a filtered listing looks at. Past it
// the page is short, and its cursor says where to go on.
const maxLooked = 20 * wire.MaxList

// lookThrough makes one page of the rows that pass, in the order of the ledger.
// read returns up to n rows after a row, from the start of the query for nil.
func lookThrough[T any](limit int, read func(n int, after *T) ([]T, error), pass func(*T) bool, key func(T) string) ([]T, *string, error) {
	cursor := func(last T) *string {
		next := base64.RawURLEncoding.EncodeToString([]byte(key(last)))
		return &next
	}
	var found []T
	var after *T
	for n, looked := limit+1, 0; looked < maxLooked; n = wire.MaxList {
		page, err := read(n, after)
		if err != nil {
			return nil, nil, err
		}
		for i := range page {
			if !pass(&page[i]) {
				continue
			}
			if len(found) == limit {
				return found, cursor(found[limit-1]), nil
			}
			found = append(found, page[i])
		}
		if len(page) < n {
			return found, nil, nil
		}
		looked += len(page)
		after = &page[len(page)-1]
	}
	return found, cursor(*after), nil
}
