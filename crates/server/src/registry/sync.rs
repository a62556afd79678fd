//! The primitives under the registry: a lock that is held for a closure and never longer, and a pointer that is
//! exchanged. A closure cannot await, so no lock is held over an await (R13). In tests they can be those of a model
//! checker, so that what it tries in every order is this code and no copy of it.

#[cfg(not(test))]
pub(super) use plain::Mutex;
#[cfg(not(test))]
pub(super) type Swap<T> = arc_swap::ArcSwap<T>;

#[cfg(test)]
pub(super) use model::{Mutex, Swap, locks_taken, modelled};

#[cfg(debug_assertions)]
thread_local! {
    static HELD: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// What must not be done under a lock, in builds that check: a read of the store, above all.
pub(super) fn assert_no_lock_is_held() {
    #[cfg(debug_assertions)]
    assert!(!HELD.get(), "a lock of the registry is held while something slow is done");
}

/// Marks the time in a lock, for [`assert_no_lock_is_held`].
fn holding<R>(work: impl FnOnce() -> R) -> R {
    #[cfg(debug_assertions)]
    {
        struct Released;
        impl Drop for Released {
            fn drop(&mut self) {
                HELD.set(false);
            }
        }
        assert!(!HELD.replace(true), "a lock of the registry is taken inside another");
        let _released = Released;
        work()
    }
    #[cfg(not(debug_assertions))]
    work()
}

mod plain {
    use std::sync::PoisonError;

    /// A lock for short work on memory.
    #[derive(Debug, Default)]
    pub(in crate::registry) struct Mutex<T>(std::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(in crate::registry) const fn new(value: T) -> Self {
            Self(std::sync::Mutex::new(value))
        }

        /// Does the work under the lock. A panic in another's work does not poison it: what it guards is whole
        /// after each statement.
        pub(in crate::registry) fn with<R>(&self, work: impl FnOnce(&mut T) -> R) -> R {
            let mut value = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            super::holding(|| work(&mut value))
        }
    }
}

/// The same, counted, and inside [`modelled`] with the locks of shuttle and a point to switch tasks at before each
/// look at a pointer.
#[cfg(test)]
mod model {
    use std::cell::Cell;
    use std::sync::{Arc, PoisonError};

    use super::plain;

    thread_local! {
        static LOCKS: Cell<u64> = const { Cell::new(0) };
        static MODELLED: Cell<bool> = const { Cell::new(false) };
    }

    /// Locks that this thread has taken so far.
    pub(in crate::registry) fn locks_taken() -> u64 {
        LOCKS.get()
    }

    /// Runs `model` in so many random orders of its tasks.
    pub(in crate::registry) fn modelled(orders: usize, model: impl Fn() + Send + Sync + 'static) {
        MODELLED.set(true);
        shuttle::check_random(model, orders);
        MODELLED.set(false);
    }

    pub(in crate::registry) enum Mutex<T> {
        Plain(plain::Mutex<T>),
        Model(shuttle::sync::Mutex<T>),
    }

    impl<T> Mutex<T> {
        pub(in crate::registry) fn new(value: T) -> Self {
            if MODELLED.get() {
                Self::Model(shuttle::sync::Mutex::new(value))
            } else {
                Self::Plain(plain::Mutex::new(value))
            }
        }

        pub(in crate::registry) fn with<R>(&self, work: impl FnOnce(&mut T) -> R) -> R {
            LOCKS.set(LOCKS.get().saturating_add(1));
            match self {
                Self::Plain(mutex) => mutex.with(work),
                Self::Model(mutex) => {
                    let mut value = mutex.lock().unwrap_or_else(PoisonError::into_inner);
                    // Tasks of a model share a thread: others run while this one has the lock.
                    shuttle::thread::yield_now();
                    work(&mut value)
                }
            }
        }
    }

    pub(in crate::registry) struct Swap<T>(arc_swap::ArcSwap<T>);

    impl<T> Swap<T> {
        pub(in crate::registry) fn from_pointee(value: T) -> Self {
            Self(arc_swap::ArcSwap::from_pointee(value))
        }

        pub(in crate::registry) fn load(&self) -> arc_swap::Guard<Arc<T>> {
            point();
            self.0.load()
        }

        pub(in crate::registry) fn swap(&self, new: Arc<T>) -> Arc<T> {
            point();
            self.0.swap(new)
        }
    }

    fn point() {
        if MODELLED.get() {
            shuttle::thread::yield_now();
        }
    }
}
