package main

import (
	"context"
	"errors"
	"time"

	"github.com/bsm/redislock"
)

type bsmLibrary struct{ *redislock.Client }

var always = context.Background()

func connect([]string) library {
	return bsmLibrary{redislock.New(servers[0])}
}

func (b bsmLibrary) take(name string, lease time.Duration, _ bool) (lock, error) {
	taken, err := b.Obtain(always, name, lease, nil)
	if errors.Is(err, redislock.ErrNotObtained) {
		return nil, nil
	}
	return taken, err
}

func (bsmLibrary) release(l lock) (bool, error) {
	return owned(l.(*redislock.Lock).Release(always))
}

func (bsmLibrary) extend(l lock, lease time.Duration) (bool, error) {
	return owned(l.(*redislock.Lock).Refresh(always, lease, nil))
}

func (bsmLibrary) token(l lock) string {
	return l.(*redislock.Lock).Token()
}

func owned(err error) (bool, error) {
	if errors.Is(err, redislock.ErrLockNotHeld) || errors.Is(err, redislock.ErrNotObtained) {
		return false, nil
	}
	return err == nil, err
}
