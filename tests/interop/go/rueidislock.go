package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

// A locker has one lease for all of its locks.
type rueidisLibrary struct {
	url     string
	mutex   sync.Mutex
	lockers map[time.Duration]rueidislock.Locker
}

var always = context.Background()

func connect(urls []string) library {
	return &rueidisLibrary{url: urls[0], lockers: map[time.Duration]rueidislock.Locker{}}
}

// It does not extend: the leases of the tests are to end. Its time limit for a key is that of a slow machine.
func (r *rueidisLibrary) locker(lease time.Duration) (rueidislock.Locker, error) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if locker := r.lockers[lease]; locker != nil {
		return locker, nil
	}
	options, err := rueidis.ParseURL(r.url)
	if err != nil {
		return nil, err
	}
	options.ClientName = "player"
	locker, err := rueidislock.NewLocker(rueidislock.LockerOption{ClientOption: options,
		KeyValidity: lease, ExtendInterval: time.Hour, TryNextAfter: time.Minute})
	if err == nil {
		r.lockers[lease] = locker
	}
	return locker, err
}

func (r *rueidisLibrary) take(name string, lease time.Duration, waits bool) (lock, error) {
	locker, err := r.locker(lease)
	if err != nil {
		return nil, err
	}
	take := locker.TryWithContext
	if waits {
		take = locker.WithContext
	}
	_, release, err := take(always, name)
	if errors.Is(err, rueidislock.ErrNotLocked) {
		return nil, nil
	}
	return release, err
}

func (*rueidisLibrary) release(l lock) (bool, error) {
	l.(context.CancelFunc)()
	return true, nil
}

func (*rueidisLibrary) extend(lock, time.Duration) (bool, error) {
	return false, errors.New("it extends by itself")
}

func (*rueidisLibrary) token(lock) string {
	return ""
}
