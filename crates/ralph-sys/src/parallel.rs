//! Work on many items, shared among all processors.

use std::panic::resume_unwind;
use std::sync::{Mutex, PoisonError};
use std::thread;

/// How many threads can run at once. The answer takes a dozen system calls.
pub fn processor_count() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Maps every item, in order, on all processors. Meant for work of more than a few milliseconds: starting the threads
/// takes some time too.
pub fn map_in_parallel<T: Send, R: Send>(items: Vec<T>, map: impl Fn(T) -> R + Sync) -> Vec<R> {
    if items.len() < 2 {
        return items.into_iter().map(map).collect();
    }
    map_with_workers(items, processor_count(), map)
}

/// Maps every item, in order, with this many threads.
pub fn map_with_workers<T: Send, R: Send>(
    items: Vec<T>,
    workers: usize,
    map: impl Fn(T) -> R + Sync,
) -> Vec<R> {
    let threads = workers.min(items.len());
    if threads < 2 {
        return items.into_iter().map(map).collect();
    }
    let queue = Mutex::new(items.into_iter().enumerate());
    let take = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
    let work = || std::iter::from_fn(take).map(|(at, item)| (at, map(item))).collect::<Vec<_>>();
    let mut mapped: Vec<(usize, R)> = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let join = |worker: thread::ScopedJoinHandle<'_, Vec<_>>| match worker.join() {
            Ok(mapped) => mapped,
            Err(panic) => resume_unwind(panic),
        };
        workers.into_iter().flat_map(join).collect()
    });
    mapped.sort_by_key(|(at, _)| *at);
    mapped.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_the_order_of_the_items() {
        for count in [0, 1, 2, 1000] {
            let items: Vec<u64> = (0..count).collect();
            let expected: Vec<u64> = items.iter().map(|item| item * 2).collect();
            assert_eq!(map_in_parallel(items, |item| item * 2), expected);
        }
    }

    #[test]
    #[should_panic(expected = "the third")]
    fn a_panic_reaches_the_caller() {
        map_in_parallel(vec![1, 2, 3], |item| assert!(item != 3, "the third"));
    }
}
