// redsync over go-redis that does what it is told: ../duo.h has the orders.
//
//	player URL...
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

const retry = 10 * time.Millisecond

var (
	servers []*redis.Client
	rs      *redsync.Redsync
	output  sync.Mutex
)

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// A thread has mutexes of its own, by name.
type actor struct {
	orders  chan order
	mutexes map[string]*redsync.Mutex
}

type order struct {
	number int
	words  []string
}

func (a *actor) run() {
	for order := range a.orders {
		say(fmt.Sprintf("%d %s", order.number, a.obey(order.words)))
	}
}

func (a *actor) obey(words []string) string {
	verb, name := words[0], words[1]
	mutex := a.mutexes[name]
	switch verb {
	case "lock":
		return okOr(a.lock(name, number(words[2])))
	case "trylock":
		return yesNo(a.mutex(name, number(words[2]), 1).Lock())
	case "unlock":
		return owned(mutex.Unlock())
	case "extend":
		// The time by which a mutex extends is fixed when it is made.
		value := redsync.WithValue(mutex.Value())
		return owned(a.mutex(name, number(words[2]), 1, value).Extend())
	case "token":
		return mutex.Value()
	case "count":
		return okOr(a.count(name, words[2], number(words[3])))
	}
	return "failed: no verb " + verb
}

func (a *actor) mutex(name string, leaseMs, tries int, further ...redsync.Option) *redsync.Mutex {
	options := append(further, redsync.WithExpiry(time.Duration(leaseMs)*time.Millisecond),
		redsync.WithTries(tries), redsync.WithRetryDelay(retry))
	a.mutexes[name] = rs.NewMutex(name, options...)
	return a.mutexes[name]
}

func (a *actor) lock(name string, leaseMs int) error {
	mutex := a.mutex(name, leaseMs, 32)
	for {
		err := mutex.Lock()
		if err == nil || !isTaken(err) {
			return err
		}
	}
}

func (a *actor) count(name, key string, times int) error {
	ctx := context.Background()
	for i := 0; i < times; i++ {
		if err := a.lock(name, 60000); err != nil {
			return err
		}
		n, err := servers[0].Get(ctx, key).Int()
		if err == nil {
			err = servers[0].Set(ctx, key, n+1, 0).Err()
		}
		if err != nil {
			return err
		}
		if _, err := a.mutexes[name].Unlock(); err != nil {
			return err
		}
	}
	return nil
}

func isTaken(err error) bool {
	var taken *redsync.ErrTaken
	return errors.As(err, &taken) || errors.Is(err, redsync.ErrFailed)
}

func okOr(err error) string {
	if err != nil {
		return "failed: " + strings.ReplaceAll(err.Error(), "\n", " ")
	}
	return "ok"
}

func yesNo(err error) string {
	if err == nil {
		return "yes"
	}
	if isTaken(err) {
		return "no"
	}
	return okOr(err)
}

func owned(done bool, err error) string {
	var taken *redsync.ErrTaken
	if done {
		return "ok"
	}
	if err == nil || errors.As(err, &taken) || errors.Is(err, redsync.ErrLockAlreadyExpired) ||
		errors.Is(err, redsync.ErrExtendFailed) {
		return "not-owner"
	}
	return okOr(err)
}

func number(word string) int {
	n, err := strconv.Atoi(word)
	must(err)
	return n
}

func say(line string) {
	output.Lock()
	defer output.Unlock()
	fmt.Println(line)
}

func connect(urls []string) {
	var pools []redsyncredis.Pool
	for _, url := range urls {
		options, err := redis.ParseURL(url)
		must(err)
		options.ClientName = "player"
		options.MaxRetries = -1 // a server that is down is down
		client := redis.NewClient(options)
		must(client.Ping(context.Background()).Err())
		servers = append(servers, client)
		pools = append(pools, goredis.NewPool(client))
	}
	rs = redsync.New(pools...)
}

func main() {
	actors := map[string]*actor{}
	connect(os.Args[1:])
	say("ready")
	input := bufio.NewScanner(os.Stdin)
	for n := 1; input.Scan(); n++ {
		words := strings.Fields(input.Text())
		if actors[words[0]] == nil {
			actors[words[0]] = &actor{make(chan order, 16), map[string]*redsync.Mutex{}}
			go actors[words[0]].run()
		}
		actors[words[0]].orders <- order{n, words[1:]}
	}
}
