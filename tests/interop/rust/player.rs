//! A library for Rust that does what it is told: ../duo.h has the orders. `locks.rs` makes the library:
//! each of the other files here is one of these.
//!
//!     player URL...

mod locks;

use locks::{Library, Lock};
use redis::AsyncCommands;
use std::collections::HashMap;
use std::io::BufRead;
use std::time::Duration;
use tokio::sync::mpsc;

const RETRY: Duration = Duration::from_millis(10);

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// A thread has locks of its own, by name.
struct Actor {
    library: Library,
    counts: redis::aio::MultiplexedConnection,
    held: HashMap<String, Lock>,
}

impl Actor {
    async fn run(mut self, mut orders: mpsc::UnboundedReceiver<(usize, Vec<String>)>) {
        while let Some((number, words)) = orders.recv().await {
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            match self.obey(&words).await {
                Ok(answer) => println!("{number} {answer}"),
                Err(why) => println!("{number} failed: {}", why.to_string().replace('\n', " ")),
            }
        }
    }

    async fn obey(&mut self, words: &[&str]) -> Result<&'static str, Failure> {
        let name = words[1];
        match words[0] {
            "lock" => {
                self.lock(name, lease(words[2])?).await?;
                Ok("ok")
            }
            "trylock" => Ok(if self.take(name, lease(words[2])?).await? { "yes" } else { "no" }),
            "unlock" => {
                self.release(name).await?;
                Ok("ok")
            }
            "count" => {
                for _ in 0..words[3].parse::<u32>()? {
                    self.lock(name, Duration::from_secs(60)).await?;
                    let n: i64 = self.counts.get(words[2]).await?;
                    let _: () = self.counts.set(words[2], n + 1).await?;
                    self.release(name).await?;
                }
                Ok("ok")
            }
            verb => Err(format!("no verb {verb}").into()),
        }
    }

    async fn lock(&mut self, name: &str, lease: Duration) -> Result<(), Failure> {
        while !self.take(name, lease).await? {
            tokio::time::sleep(RETRY).await;
        }
        Ok(())
    }

    async fn take(&mut self, name: &str, lease: Duration) -> Result<bool, Failure> {
        let taken = self.library.take(name, lease).await?;
        let is_ours = taken.is_some();
        if let Some(lock) = taken {
            self.held.insert(name.into(), lock);
        }
        Ok(is_ours)
    }

    async fn release(&mut self, name: &str) -> Result<(), Failure> {
        let lock = self.held.remove(name).ok_or("it holds no such lock")?;
        self.library.release(lock).await;
        Ok(())
    }
}

fn lease(word: &str) -> Result<Duration, Failure> {
    Ok(Duration::from_millis(word.parse()?))
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    // The connections of a library have no name of their own, so it has a user.
    let with_user = |url: String| url.replacen("://", "://player:any@", 1);
    let urls: Vec<String> = std::env::args().skip(1).map(with_user).collect();
    let client = redis::Client::open(urls[0].as_str())?;
    let counts = client.get_multiplexed_async_connection().await?;
    let library = Library::connect(&urls);
    let mut actors: HashMap<String, mpsc::UnboundedSender<(usize, Vec<String>)>> = HashMap::new();

    println!("ready");
    for (i, line) in std::io::stdin().lock().lines().enumerate() {
        let mut words: Vec<String> = line?.split_whitespace().map(String::from).collect();
        let actor = actors.entry(words.remove(0)).or_insert_with(|| {
            let (sender, receiver) = mpsc::unbounded_channel();
            let actor =
                Actor { library: library.clone(), counts: counts.clone(), held: HashMap::new() };
            tokio::spawn(actor.run(receiver));
            sender
        });
        actor.send((i + 1, words))?;
    }
    Ok(())
}
