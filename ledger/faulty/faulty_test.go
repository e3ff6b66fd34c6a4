package faulty_test

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/blobd/blobd/ledger"
	"github.com/blobd/blobd/ledger/faulty"
	"github.com/blobd/blobd/ledger/mem"
)

var errFault = errors.New("fault")

func newTenant(id string) ledger.Tenant { return ledger.Tenant{ID: id} }

func TestAFaultBeforeLeavesTheLedgerUntouched(t *testing.T) {
	inner := mem.New(time.Now)
	l := faulty.New(inner)
	l.Fail("createtenant", 1, faulty.Before, errFault)
	if err := l.CreateTenant(t.Context(), newTenant("a"), ledger.Entry{}); !errors.Is(err, errFault) {
		t.Fatalf("error %v", err)
	}
	if ts, err := inner.ListTenants(t.Context(), "", 9); err != nil || len(ts) != 0 {
		t.Fatalf("tenants %v, %v", ts, err)
	}
	if err := l.CreateTenant(t.Context(), newTenant("a"), ledger.Entry{}); err != nil {
		t.Fatalf("the fault came twice: %v", err)
	}
}

func TestAFaultAfterComesWhenTheCallIsDone(t *testing.T) {
	inner := mem.New(time.Now)
	l := faulty.New(inner)
	l.Fail("CreateTenant", 2, faulty.After, errFault)
	for i, id := range []string{"a", "b", "c"} {
		err := l.CreateTenant(t.Context(), newTenant(id), ledger.Entry{})
		if (err != nil) != (i == 1) {
			t.Fatalf("call %d: %v", i, err)
		}
	}
	if ts, err := inner.ListTenants(t.Context(), "", 9); err != nil || len(ts) != 3 {
		t.Fatalf("tenants %v, %v", ts, err)
	}
	if l.Pending() != 0 {
		t.Fatal("a fault is left")
	}
}

func TestAFaultKeepsTheResultBack(t *testing.T) {
	l := faulty.New(mem.New(time.Now))
	if err := l.CreateTenant(t.Context(), newTenant("a"), ledger.Entry{}); err != nil {
		t.Fatal(err)
	}
	l.Fail("", 1, faulty.After, errFault)
	if got, err := l.Tenant(t.Context(), "a"); !errors.Is(err, errFault) || got.ID != "" {
		t.Fatalf("tenant %+v, %v", got, err)
	}
}

// Every method of the contract goes through the faults, under its own name.
func TestEveryMethodHasAnOp(t *testing.T) {
	contract := reflect.TypeFor[ledger.Ledger]()
	for method := range contract.Methods() {
		l := faulty.New(mem.New(time.Now))
		var ops []string
		l.OnCall(func(op string) { ops = append(ops, op) })
		l.Fail(method.Name, 1, faulty.Before, errFault)
		var args []reflect.Value
		for in := range method.Type.Ins() {
			arg := reflect.Zero(in)
			if in == reflect.TypeFor[context.Context]() {
				arg = reflect.ValueOf(t.Context())
			}
			args = append(args, arg)
		}
		results := reflect.ValueOf(l).MethodByName(method.Name).Call(args)
		err, _ := results[len(results)-1].Interface().(error)
		if !errors.Is(err, errFault) {
			t.Errorf("%s answered %v", method.Name, err)
		}
		if want := []string{strings.ToLower(method.Name)}; !reflect.DeepEqual(ops, want) {
			t.Errorf("%s is %v", method.Name, ops)
		}
	}
}
