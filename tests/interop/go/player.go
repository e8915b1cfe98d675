// A library for Go that does what it is told: ../duo.h has the orders. connect() of locks.go makes
// the library: each of the other files here is one of these.
//
//	player URL...
package main

import (
	"bufio"
	"context"
	"fmt"
	"log"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const retry = 10 * time.Millisecond

// A library. `take` returns nil if another owner has the lock. `release` and `extend` return whether the
// lock was still held.
type library interface {
	take(name string, lease time.Duration, waits bool) (lock, error)
	release(lock) (bool, error)
	extend(l lock, lease time.Duration) (bool, error)
	token(lock) string
}

type lock any

var (
	locks   library
	servers []*redis.Client
	output  sync.Mutex
)

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// A thread has locks of its own, by name.
type actor struct {
	orders chan order
	held   map[string]lock
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
	switch verb {
	case "lock":
		return okOr(a.lock(name, lease(words[2])))
	case "trylock":
		taken, err := a.take(name, lease(words[2]), false)
		return answer(taken, err, "yes", "no")
	case "unlock":
		owned, err := locks.release(a.held[name])
		return answer(owned, err, "ok", "not-owner")
	case "extend":
		owned, err := locks.extend(a.held[name], lease(words[2]))
		return answer(owned, err, "ok", "not-owner")
	case "token":
		return locks.token(a.held[name])
	case "count":
		return okOr(a.count(name, words[2], number(words[3])))
	}
	return "failed: no verb " + verb
}

func (a *actor) take(name string, lease time.Duration, waits bool) (bool, error) {
	taken, err := locks.take(name, lease, waits)
	if taken == nil || err != nil {
		return false, err
	}
	a.held[name] = taken
	return true, nil
}

func (a *actor) lock(name string, lease time.Duration) error {
	for {
		taken, err := a.take(name, lease, true)
		if taken || err != nil {
			return err
		}
		time.Sleep(retry)
	}
}

func (a *actor) count(name, key string, times int) error {
	ctx := context.Background()
	for i := 0; i < times; i++ {
		if err := a.lock(name, time.Minute); err != nil {
			return err
		}
		n, err := servers[0].Get(ctx, key).Int()
		if err == nil {
			err = servers[0].Set(ctx, key, n+1, 0).Err()
		}
		if err != nil {
			return err
		}
		if _, err := locks.release(a.held[name]); err != nil {
			return err
		}
	}
	return nil
}

func okOr(err error) string {
	return answer(true, err, "ok", "")
}

func answer(is bool, err error, yes, no string) string {
	if err != nil {
		return "failed: " + strings.ReplaceAll(err.Error(), "\n", " ")
	}
	if is {
		return yes
	}
	return no
}

func number(word string) int {
	n, err := strconv.Atoi(word)
	must(err)
	return n
}

func lease(word string) time.Duration {
	return time.Duration(number(word)) * time.Millisecond
}

func say(line string) {
	output.Lock()
	defer output.Unlock()
	fmt.Println(line)
}

func open(urls []string) {
	for _, url := range urls {
		options, err := redis.ParseURL(url)
		must(err)
		options.ClientName = "player"
		options.MaxRetries = -1 // a server that is down is down
		client := redis.NewClient(options)
		must(client.Ping(context.Background()).Err())
		servers = append(servers, client)
	}
}

func main() {
	actors := map[string]*actor{}
	open(os.Args[1:])
	locks = connect(os.Args[1:])
	say("ready")
	input := bufio.NewScanner(os.Stdin)
	for n := 1; input.Scan(); n++ {
		words := strings.Fields(input.Text())
		if actors[words[0]] == nil {
			actors[words[0]] = &actor{make(chan order, 16), map[string]lock{}}
			go actors[words[0]].run()
		}
		actors[words[0]].orders <- order{n, words[1:]}
	}
}
