//! The primitives under the cache: a lock that is held for a closure and never longer (R13), a promise that threads
//! wait for, and a pointer that is exchanged. In tests they can be those of a model checker, so that what it tries in
//! every order is this code and no copy of it.

#[cfg(test)]
pub(super) use model::{Mutex, Promise, Swap, locks_taken, modelled};
#[cfg(not(test))]
pub(super) use plain::{Mutex, Promise};
#[cfg(not(test))]
pub(super) type Swap<T> = arc_swap::ArcSwap<T>;

#[cfg(debug_assertions)]
thread_local! {
    static HELD: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// What must not be done under a lock, in builds that check: opening a key.
pub(super) fn assert_no_lock_is_held() {
    #[cfg(debug_assertions)]
    assert!(!HELD.get(), "a lock of the cache is held while a key is opened");
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
        assert!(!HELD.replace(true), "a lock of the cache is taken inside another");
        let _released = Released;
        work()
    }
    #[cfg(not(debug_assertions))]
    work()
}

mod plain {
    use std::sync::{Condvar, PoisonError};

    /// A lock for short work on memory.
    #[derive(Debug, Default)]
    pub(in crate::cache) struct Mutex<T>(std::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(in crate::cache) const fn new(value: T) -> Self {
            Self(std::sync::Mutex::new(value))
        }

        /// Does the work under the lock. A panic in another's work does not poison it: what it guards is whole
        /// after each statement.
        pub(in crate::cache) fn with<R>(&self, work: impl FnOnce(&mut T) -> R) -> R {
            let mut value = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            super::holding(|| work(&mut value))
        }
    }

    /// Something that will be there.
    pub(in crate::cache) struct Promise<T> {
        value: std::sync::Mutex<Option<T>>,
        is_there: Condvar,
    }

    impl<T: Clone> Promise<T> {
        pub(in crate::cache) const fn new() -> Self {
            Self { value: std::sync::Mutex::new(None), is_there: Condvar::new() }
        }

        /// Gives it to all who wait and will wait; the first time counts.
        pub(in crate::cache) fn keep(&self, value: T) {
            self.value.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(value);
            self.is_there.notify_all();
        }

        pub(in crate::cache) fn wait(&self) -> T {
            let mut value = self.value.lock().unwrap_or_else(PoisonError::into_inner);
            loop {
                match &*value {
                    Some(value) => return value.clone(),
                    None => value = self.is_there.wait(value).unwrap_or_else(PoisonError::into_inner),
                }
            }
        }
    }
}

/// The same, counted, and inside [`modelled`] with the locks of shuttle and a point to switch threads at before each
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
    pub(in crate::cache) fn locks_taken() -> u64 {
        LOCKS.get()
    }

    /// Runs `model` in so many random orders of its threads.
    pub(in crate::cache) fn modelled(orders: usize, model: impl Fn() + Send + Sync + 'static) {
        MODELLED.set(true);
        shuttle::check_random(model, orders);
        MODELLED.set(false);
    }

    pub(in crate::cache) enum Mutex<T> {
        Plain(plain::Mutex<T>),
        Model(shuttle::sync::Mutex<T>),
    }

    impl<T> Mutex<T> {
        pub(in crate::cache) fn new(value: T) -> Self {
            if MODELLED.get() {
                Self::Model(shuttle::sync::Mutex::new(value))
            } else {
                Self::Plain(plain::Mutex::new(value))
            }
        }

        pub(in crate::cache) fn with<R>(&self, work: impl FnOnce(&mut T) -> R) -> R {
            LOCKS.set(LOCKS.get().saturating_add(1));
            match self {
                Self::Plain(mutex) => mutex.with(work),
                Self::Model(mutex) => {
                    let mut value = mutex.lock().unwrap_or_else(PoisonError::into_inner);
                    // Threads of a model are one: others run while this one has the lock.
                    shuttle::thread::yield_now();
                    work(&mut value)
                }
            }
        }
    }

    pub(in crate::cache) enum Promise<T> {
        Plain(plain::Promise<T>),
        Model(Box<(shuttle::sync::Mutex<Option<T>>, shuttle::sync::Condvar)>),
    }

    impl<T: Clone> Promise<T> {
        pub(in crate::cache) fn new() -> Self {
            if MODELLED.get() {
                Self::Model(Box::new((shuttle::sync::Mutex::new(None), shuttle::sync::Condvar::new())))
            } else {
                Self::Plain(plain::Promise::new())
            }
        }

        pub(in crate::cache) fn keep(&self, value: T) {
            match self {
                Self::Plain(promise) => promise.keep(value),
                Self::Model(model) => {
                    let (mutex, is_there) = &**model;
                    mutex.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(value);
                    is_there.notify_all();
                }
            }
        }

        pub(in crate::cache) fn wait(&self) -> T {
            match self {
                Self::Plain(promise) => promise.wait(),
                Self::Model(model) => {
                    let (mutex, is_there) = &**model;
                    let value = mutex.lock().unwrap_or_else(PoisonError::into_inner);
                    let value = is_there.wait_while(value, |value| value.is_none());
                    value.unwrap_or_else(PoisonError::into_inner).clone().unwrap()
                }
            }
        }
    }

    pub(in crate::cache) struct Swap<T>(arc_swap::ArcSwap<T>);

    impl<T> Swap<T> {
        pub(in crate::cache) fn from_pointee(value: T) -> Self {
            Self(arc_swap::ArcSwap::from_pointee(value))
        }

        pub(in crate::cache) fn load(&self) -> arc_swap::Guard<Arc<T>> {
            point();
            self.0.load()
        }

        pub(in crate::cache) fn swap(&self, new: Arc<T>) -> Arc<T> {
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
