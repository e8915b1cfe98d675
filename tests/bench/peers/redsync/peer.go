// redsync's Mutex over go-redis, measured as ../README.md says.
//
//	peer URL SECONDS
//	peer URL waiter SECONDS
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"os/exec"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"golang.org/x/sys/unix"
)

const (
	lease   = 30 * time.Second
	passes  = 100
	waiters = 32
	watched = 10 * time.Second
)

var (
	client *redis.Client
	rs     *redsync.Redsync
)

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// Delays between the tries are those that it has unless told otherwise.
func mutexOn(name string) *redsync.Mutex {
	return rs.NewMutex("peer:redsync:"+name, redsync.WithExpiry(lease))
}

// Lock fails after 32 tries; its documentation permits another call.
func lock(mutex *redsync.Mutex) {
	var taken *redsync.ErrTaken
	for {
		err := mutex.Lock()
		if err == nil {
			return
		}
		if !errors.As(err, &taken) && !errors.Is(err, redsync.ErrFailed) {
			log.Fatal(err)
		}
	}
}

func unlock(mutex *redsync.Mutex) {
	_, err := mutex.Unlock()
	must(err)
}

// CLOCK_MONOTONIC is the same in every process; time.Time keeps its own to itself.
func monotonicNs() int64 {
	var now unix.Timespec
	must(unix.ClockGettime(unix.CLOCK_MONOTONIC, &now))
	return now.Nano()
}

func medianUs(ns []int64) float64 {
	slices.Sort(ns)
	return float64(ns[len(ns)/2]) / 1000
}

func uncontendedUs(duration time.Duration) float64 {
	mutex := mutexOn("uncontended")
	var took []int64
	for end := time.Now().Add(duration); time.Now().Before(end); {
		begin := time.Now()
		lock(mutex)
		unlock(mutex)
		took = append(took, time.Since(begin).Nanoseconds())
	}
	return medianUs(took)
}

// One goroutine per mutex takes and gives it. Returns the pairs per second of all, and the share
// of the least of them in percent.
func crowd(mutexes []*redsync.Mutex, duration time.Duration) (float64, float64) {
	counts := make([]atomic.Int64, len(mutexes))
	var stop atomic.Bool
	var group sync.WaitGroup
	for i, mutex := range mutexes {
		group.Go(func() {
			for !stop.Load() {
				lock(mutex)
				unlock(mutex)
				counts[i].Add(1)
			}
		})
	}
	time.Sleep(duration / 2)
	begin := time.Now()
	before := make([]int64, len(counts))
	for i := range counts {
		before[i] = counts[i].Load()
	}
	time.Sleep(duration)
	var sum int64
	least := int64(-1)
	for i := range counts {
		n := counts[i].Load() - before[i]
		sum += n
		if least < 0 || n < least {
			least = n
		}
	}
	took := time.Since(begin).Seconds()
	stop.Store(true)
	group.Wait()
	return float64(sum) / took, 100 * float64(least) / float64(max(sum, 1))
}

func ownLocks() []*redsync.Mutex {
	var own []*redsync.Mutex
	for i := range 16 {
		own = append(own, mutexOn(fmt.Sprint("own:", i)))
	}
	return own
}

func warmUp(duration time.Duration) {
	crowd(ownLocks(), 2*duration)
}

// The other process of passingUs.
func waitForLock() {
	mutex := mutexOn("passing")
	for input := bufio.NewScanner(os.Stdin); input.Scan(); {
		lock(mutex)
		taken := monotonicNs()
		unlock(mutex)
		fmt.Println(taken)
	}
}

func passingUs(url string, duration time.Duration) float64 {
	mutex := mutexOn("passing")
	waiter := exec.Command(os.Args[0], url, "waiter", fmt.Sprint(duration.Seconds()))
	waiter.Stderr = os.Stderr
	to, err := waiter.StdinPipe()
	must(err)
	from, err := waiter.StdoutPipe()
	must(err)
	must(waiter.Start())
	answers := bufio.NewScanner(from)

	onePass := func(pause time.Duration) int64 {
		lock(mutex)
		fmt.Fprintln(to)
		time.Sleep(pause)
		given := monotonicNs()
		unlock(mutex)
		answers.Scan()
		taken, err := strconv.ParseInt(answers.Text(), 10, 64)
		must(err)
		return taken - given
	}

	onePass(time.Second) // the other process starts and warms up
	end := time.Now().Add(duration)
	for time.Now().Before(end) {
		onePass(5 * time.Millisecond)
	}
	var took []int64
	for i := range passes {
		took = append(took, onePass(time.Duration(10+i*37%290)*time.Millisecond))
	}
	must(to.Close())
	must(waiter.Wait())
	return medianUs(took)
}

func processed() int64 {
	stats, err := client.Info(context.Background(), "stats").Result()
	must(err)
	count := regexp.MustCompile(`total_commands_processed:(\d+)`).FindStringSubmatch(stats)
	n, err := strconv.ParseInt(count[1], 10, 64)
	must(err)
	return n
}

func commandsPerS() float64 {
	held := mutexOn("waiters")
	lock(held)
	var group sync.WaitGroup
	for range waiters {
		group.Go(func() {
			mutex := mutexOn("waiters")
			lock(mutex)
			unlock(mutex)
		})
	}
	time.Sleep(2 * time.Second)
	before, begin := processed(), time.Now()
	time.Sleep(watched)
	rate := float64(processed()-before-1) / time.Since(begin).Seconds()
	unlock(held)
	group.Wait()
	return rate
}

func version() string {
	versions := map[string]string{}
	build, _ := debug.ReadBuildInfo()
	for _, module := range build.Deps {
		versions[module.Path] = module.Version[1:]
	}
	return fmt.Sprintf("%s, go-redis %s", versions["github.com/go-redsync/redsync/v4"],
		versions["github.com/redis/go-redis/v9"])
}

func main() {
	url := os.Args[1]
	options, err := redis.ParseURL(url)
	must(err)
	client = redis.NewClient(options)
	rs = redsync.New(goredis.NewPool(client))
	seconds, err := strconv.ParseFloat(os.Args[len(os.Args)-1], 64)
	must(err)
	duration := time.Duration(seconds * float64(time.Second))
	if os.Args[2] == "waiter" {
		warmUp(duration)
		waitForLock()
		return
	}

	var one []*redsync.Mutex
	for range 8 {
		one = append(one, mutexOn("one"))
	}
	commands := commandsPerS()
	passing := passingUs(url, duration)
	warmUp(duration)
	uncontended := uncontendedUs(duration)
	own, _ := crowd(ownLocks(), duration)
	oneLock, least := crowd(one, duration)
	must(json.NewEncoder(os.Stdout).Encode(map[string]any{
		"peer":    "redsync",
		"version": version(),
		"rows": map[string]float64{
			"uncontended_p50_us":            uncontended,
			"own_locks_16_pairs_per_s":      own,
			"one_lock_8_acquisitions_per_s": oneLock,
			"one_lock_8_least_percent":      least,
			"passing_p50_us":                passing,
			"commands_per_s_32_waiters":     commands,
		},
	}))
}
