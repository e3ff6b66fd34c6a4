package store

import "sync"

// nameLocks are locks by name that exist while somebody has or awaits them.
type nameLocks struct {
	mu    sync.Mutex
	locks map[string]*nameLock // guarded by mu
}

type nameLock struct {
	sync.Mutex
	users int // guarded by nameLocks.mu
}

// lock waits for the name's lock and returns how to give it back.
func (l *nameLocks) lock(name string) (unlock func()) {
	l.mu.Lock()
	if l.locks == nil {
		l.locks = make(map[string]*nameLock)
	}
	n, ok := l.locks[name]
	if !ok {
		n = new(nameLock)
		l.locks[name] = n
	}
	n.users++
	l.mu.Unlock()
	n.Lock()
	return func() {
		n.Unlock()
		l.mu.Lock()
		defer l.mu.Unlock()
		if n.users--; n.users == 0 {
			delete(l.locks, name)
		}
	}
}
