//! Places for hook processes: how many may run at once.

use std::sync::Arc;

use tokio::sync::{Semaphore, watch};

use super::TransportError;

/// The places of all hooks, whichever config they are of. There are none until
/// [`Self::resize`] says how many.
#[derive(Debug)]
pub struct Places {
    free: Semaphore,
    demand: watch::Sender<Demand>,
}

/// How many places are wanted.
#[derive(Debug, Default)]
struct Demand {
    /// How many places there are to be.
    total: usize,
    /// Taken places that will not be there any more once they are free.
    excess: usize,
}

/// A place that is taken, until this is dropped.
#[derive(Debug)]
pub(super) struct Place {
    places: Arc<Places>,
}

impl Default for Places {
    fn default() -> Self {
        Self {
            free: Semaphore::new(0),
            demand: watch::Sender::default(),
        }
    }
}

impl Places {
    /// From now on there are `total` places. If more are taken, the next ones
    /// to be left are nobody's.
    pub fn resize(&self, total: usize) {
        self.change(|demand| {
            let more = total.saturating_sub(demand.total);
            let fewer = demand.total.saturating_sub(total);
            let kept = more.min(demand.excess);
            self.free.add_permits(more - kept);
            let gone = self.free.forget_permits(fewer);
            demand.excess = demand.excess - kept + fewer - gone;
            demand.total = total;
        });
    }

    /// A place for a call, in the order of asking.
    pub(super) async fn take(self: &Arc<Self>) -> Result<Place, TransportError> {
        if let Ok(permit) = self.free.try_acquire() {
            permit.forget();
            return Ok(self.place());
        }
        self.next().await
    }

    async fn next(self: &Arc<Self>) -> Result<Place, TransportError> {
        let permit = self.free.acquire().await;
        permit.map_err(|_| TransportError::ShuttingDown)?.forget();
        Ok(self.place())
    }

    fn place(self: &Arc<Self>) -> Place {
        Place {
            places: Arc::clone(self),
        }
    }

    /// Changes the demand, and tells those who may give way.
    fn change(&self, change: impl FnOnce(&mut Demand)) {
        self.demand.send_modify(change);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.demand.send_if_modified(|demand| {
            if demand.excess > 0 {
                demand.excess -= 1;
            } else {
                self.places.free.add_permits(1);
            }
            false
        });
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn places(total: usize) -> Arc<Places> {
        let places = Arc::new(Places::default());
        places.resize(total);
        places
    }

    #[tokio::test]
    async fn fewer_places_are_fewer_as_soon_as_they_are_left() {
        let places = places(3);
        let mut taken = Vec::new();
        for _ in 0..2 {
            taken.push(places.take().await.unwrap());
        }

        places.resize(1);
        let mut call = Box::pin(places.take());
        assert!(call.as_mut().now_or_never().is_none());
        drop(taken.pop());
        assert!(call.as_mut().now_or_never().is_none(), "one is gone");
        drop(taken.pop());

        let _one = call.await.unwrap();
        assert!(places.take().now_or_never().is_none());
        places.resize(2);
        assert!(places.take().now_or_never().is_some());
    }

    #[tokio::test]
    async fn places_that_come_back_are_not_given_up() {
        let places = places(2);
        let taken = [places.take().await.unwrap(), places.take().await.unwrap()];
        places.resize(1);

        places.resize(2);
        drop(taken);

        let _one = places.take().await.unwrap();
        assert!(places.take().now_or_never().is_some());
    }
}
