use rslock::{LockError, LockManager};
use std::time::Duration;

pub type Lock = rslock::Lock;

#[derive(Clone)]
pub struct Library(LockManager);

impl Library {
    pub fn connect(urls: &[String]) -> Library {
        let mut manager = LockManager::new(urls.to_vec());
        manager.set_retry(1, Duration::from_millis(1));
        Library(manager)
    }

    pub async fn take(&self, name: &str, lease: Duration) -> Result<Option<Lock>, LockError> {
        match self.0.lock(name, lease).await {
            Ok(lock) => Ok(Some(lock)),
            Err(LockError::Unavailable) => Ok(None),
            Err(why) => Err(why),
        }
    }

    pub async fn release(&self, lock: Lock) {
        self.0.unlock(&lock).await;
    }
}
