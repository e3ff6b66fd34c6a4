// Package clock is the arithmetic of the deadlines that data-protection law sets
// for a request: when its receipt must be confirmed, when it is due, what a pause
// and an extension do to that, and how a request stands.
//
// It promises that the same request, events, calendar and moment always give the
// same clock: it does no input or output and reads no time. All days are days of
// UTC, whatever zone a time comes in. None of it is legal advice; docs/clocks.md
// says what is read into which law.
package clock

import "github.com/blobd/blobd/ledger"

// The regimes, by the contract's words.
const (
	GDPR   = "gdpr"
	UK     = "uk"
	CCPA   = "ccpa"
	LGPD   = "lgpd"
	Custom = "custom"
	// HIPAA is of access requests. No erasure of the contract has it: HIPAA gives no
	// right to erasure.
	HIPAA = "hipaa"
)

// Rules are what a regime says of the time that a request may take.
type Rules struct {
	// Acknowledges: receipt must be confirmed, within AcknowledgeWithin working days
	// after the day of receipt; 0: on the day of receipt.
	Acknowledges      bool
	AcknowledgeWithin int
	// Period ends on its last day's last second; zero: the regime sets none.
	Period ledger.Period
	// Extension may be added to Period, once; zero: the regime sets none.
	Extension ledger.Period
	// Pauses: days on which the clock was stopped do not count.
	Pauses bool
	// Rolls: a last day that is no working day becomes the next working day.
	Rolls bool
}

// RulesOf returns the rules of a regime. Custom, no regime and a word that is none
// have no dates of their own: only stated ones count.
func RulesOf(regime string) Rules {
	switch regime {
	case GDPR, UK:
		return Rules{Period: ledger.Period{Months: 1}, Extension: ledger.Period{Months: 2}, Pauses: true, Rolls: true}
	case CCPA:
		return Rules{
			Acknowledges: true, AcknowledgeWithin: 10,
			Period: ledger.Period{Days: 45}, Extension: ledger.Period{Days: 45},
		}
	case LGPD:
		return Rules{Acknowledges: true, Period: ledger.Period{Days: 15}}
	case HIPAA:
		return Rules{Period: ledger.Period{Days: 30}, Extension: ledger.Period{Days: 30}}
	}
	return Rules{Pauses: true}
}
