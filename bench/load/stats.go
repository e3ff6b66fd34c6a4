package load

import (
	"cmp"
	"math"
	"slices"
)

// Quantile returns the smallest value of sorted that at least the share q of all
// values does not exceed (nearest rank), and the zero value if there is none.
func Quantile[T any](sorted []T, q float64) (v T) {
	if len(sorted) == 0 {
		return v
	}
	rank := int(math.Ceil(q * float64(len(sorted))))
	return sorted[min(max(rank, 1), len(sorted))-1]
}

// Median returns the middle value; of an even number, the lower of the two.
func Median[T cmp.Ordered](values []T) T {
	return Quantile(slices.Sorted(slices.Values(values)), 0.5)
}
