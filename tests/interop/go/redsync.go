package main

import (
	"errors"
	"time"

	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
)

type redsyncLibrary struct{ *redsync.Redsync }

func connect([]string) library {
	var pools []redsyncredis.Pool
	for _, client := range servers {
		pools = append(pools, goredis.NewPool(client))
	}
	return redsyncLibrary{redsync.New(pools...)}
}

func (r redsyncLibrary) take(name string, lease time.Duration, waits bool) (lock, error) {
	tries := 1
	if waits {
		tries = 32
	}
	mutex := r.NewMutex(name, redsync.WithExpiry(lease), redsync.WithTries(tries),
		redsync.WithRetryDelay(retry))
	var taken *redsync.ErrTaken
	err := mutex.Lock()
	if errors.As(err, &taken) || errors.Is(err, redsync.ErrFailed) {
		return nil, nil
	}
	return mutex, err
}

func (redsyncLibrary) release(l lock) (bool, error) {
	return owned(l.(*redsync.Mutex).Unlock())
}

// The time by which a mutex extends is fixed when it is made.
func (r redsyncLibrary) extend(l lock, lease time.Duration) (bool, error) {
	mutex := l.(*redsync.Mutex)
	return owned(r.NewMutex(mutex.Name(), redsync.WithExpiry(lease), redsync.WithTries(1),
		redsync.WithValue(mutex.Value())).Extend())
}

func (redsyncLibrary) token(l lock) string {
	return l.(*redsync.Mutex).Value()
}

func owned(done bool, err error) (bool, error) {
	var taken *redsync.ErrTaken
	if errors.As(err, &taken) || errors.Is(err, redsync.ErrLockAlreadyExpired) ||
		errors.Is(err, redsync.ErrExtendFailed) {
		return false, nil
	}
	return done, err
}
