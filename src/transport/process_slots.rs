//! Places for hook processes: how many may run at once. Calls go first; a
//! process that no call needs yet takes what is left, and gives way.

use std::sync::Arc;

use tokio::{
    sync::{Semaphore, watch},
    task::yield_now,
};

use super::TransportError;

/// The places of all hooks, whichever config they are of. There are none until
/// [`Self::resize`] says how many.
#[derive(Debug)]
pub struct ProcessSlots {
    free: Semaphore,
    demand: watch::Sender<Demand>,
}

/// Who wants places that are taken, and who is about to free some.
#[derive(Debug, Default)]
struct Demand {
    /// How many places there are to be.
    total: usize,
    /// Taken places that will not be there any more once they are free.
    excess: usize,
    /// Calls that wait.
    waiting: usize,
    /// Places whose process is being ended for the sake of others.
    giving_way: usize,
}

/// A place that is taken, until this is dropped.
#[derive(Debug)]
pub(super) struct Place {
    places: Arc<ProcessSlots>,
    gives_way: bool,
}

impl Default for ProcessSlots {
    fn default() -> Self {
        Self {
            free: Semaphore::new(0),
            demand: watch::Sender::default(),
        }
    }
}

impl ProcessSlots {
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
        let _waiting = Waiting::new(self);
        self.next().await
    }

    /// A place for a process that no call needs yet: one that no call waits
    /// for.
    pub(super) async fn take_spare(self: &Arc<Self>) -> Result<Place, TransportError> {
        loop {
            let place = self.next().await?;
            if self.demand.borrow().waiting == 0 {
                return Ok(place);
            }
            // Calls stand behind it in the line.
            drop(place);
            yield_now().await;
        }
    }

    async fn next(self: &Arc<Self>) -> Result<Place, TransportError> {
        let permit = self.free.acquire().await;
        permit.map_err(|_| TransportError::ShuttingDown)?.forget();
        Ok(self.place())
    }

    fn place(self: &Arc<Self>) -> Place {
        Place {
            places: Arc::clone(self),
            gives_way: false,
        }
    }

    /// Changes the demand, and tells those who may give way.
    fn change(&self, change: impl FnOnce(&mut Demand)) {
        self.demand.send_modify(change);
    }
}

impl Place {
    /// Waits until somebody needs this place, who is then promised it.
    pub(super) async fn wanted(&mut self) {
        let mut demands = self.places.demand.subscribe();
        let is_wanted = |it: &Demand| it.waiting + it.excess > it.giving_way;
        while !self.gives_way {
            // The sender lives as long as the place.
            demands.wait_for(is_wanted).await.ok();
            self.places.demand.send_if_modified(|demand| {
                // Another may have been quicker.
                self.gives_way = is_wanted(demand);
                demand.giving_way += usize::from(self.gives_way);
                false
            });
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.demand.send_if_modified(|demand| {
            demand.giving_way -= usize::from(self.gives_way);
            if demand.excess > 0 {
                demand.excess -= 1;
            } else {
                self.places.free.add_permits(1);
            }
            false
        });
    }
}

/// A call that waits for a place.
struct Waiting<'a>(&'a ProcessSlots);

impl<'a> Waiting<'a> {
    fn new(places: &'a ProcessSlots) -> Self {
        places.change(|it| it.waiting += 1);
        Self(places)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.demand.send_if_modified(|it| {
            it.waiting -= 1;
            false
        });
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn places(total: usize) -> Arc<ProcessSlots> {
        let places = Arc::new(ProcessSlots::default());
        places.resize(total);
        places
    }

    #[tokio::test]
    async fn a_call_goes_before_a_spare_that_asked_earlier() {
        let places = places(1);
        let taken = places.take().await.unwrap();
        let mut spare = Box::pin(places.take_spare());
        assert!(spare.as_mut().now_or_never().is_none());
        let mut call = Box::pin(places.take());
        assert!(call.as_mut().now_or_never().is_none());

        drop(taken);
        assert!(spare.as_mut().now_or_never().is_none());
        let served = call.await.unwrap();
        drop(served);

        assert!(spare.await.is_ok());
    }

    #[tokio::test]
    async fn one_spare_gives_way_for_each_call_that_waits() {
        let places = places(2);
        let mut one = places.take_spare().await.unwrap();
        let mut other = places.take_spare().await.unwrap();
        assert!(one.wanted().now_or_never().is_none());

        let mut call = Box::pin(places.take());
        assert!(call.as_mut().now_or_never().is_none());

        assert!(one.wanted().now_or_never().is_some());
        assert!(other.wanted().now_or_never().is_none());
        drop(one);
        drop(call.await);
        assert!(other.wanted().now_or_never().is_none());
    }

    #[tokio::test]
    async fn a_call_given_up_wants_nothing() {
        let places = places(1);
        let mut spare = places.take_spare().await.unwrap();
        let mut call = Box::pin(places.take());
        assert!(call.as_mut().now_or_never().is_none());

        drop(call);

        assert!(spare.wanted().now_or_never().is_none());
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
        assert!(taken[0].wanted().now_or_never().is_some());
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
