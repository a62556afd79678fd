//! Several hashes over one long stretch of a file, read once: each hash on a thread of its own, because the slowest
//! (MD5, which packages still carry) would otherwise add its time to that of all others.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::{Builder, Scope, ScopedJoinHandle, scope};

use super::hashes::Hashes;
use crate::source::{ReadAt, for_each_chunk};

/// Shorter stretches are hashed by the calling thread: starting threads would cost more than it saves.
const THREADS_BYTES_MIN: u64 = 4 << 20;

/// Chunks that may wait for one hash. With [`crate::source::CHUNK_BYTES`] it bounds the memory: 1 MiB for a file.
const QUEUE_CHUNKS: usize = 3;

/// Feeds `start..end` to both sets of hashes.
///
/// # Errors
/// What reading says.
pub(super) fn hash_both(
    source: &dyn ReadAt,
    start: u64,
    end: u64,
    one: &mut Hashes,
    other: &mut Hashes,
) -> io::Result<()> {
    let is_long = end.saturating_sub(start) >= THREADS_BYTES_MIN;
    if is_long && let Some(result) = scope(|scope| on_threads(scope, source, start, end, one, other)) {
        return result;
    }
    for_each_chunk(source, start, end, |chunk| {
        one.update(chunk);
        other.update(chunk);
    })
}

struct Lane<'scope> {
    queue: SyncSender<Arc<[u8]>>,
    thread: ScopedJoinHandle<'scope, Hashes>,
}

/// `None`, with nothing changed, if the system gives no more threads.
fn on_threads<'scope>(
    scope: &'scope Scope<'scope, '_>,
    source: &dyn ReadAt,
    start: u64,
    end: u64,
    one: &mut Hashes,
    other: &mut Hashes,
) -> Option<io::Result<()>> {
    let lanes = |hashes: &Hashes| hashes.split().into_iter().map(|hash| lane(scope, hash).ok()).collect();
    let (one_lanes, other_lanes): (Option<Vec<_>>, Option<Vec<_>>) = (lanes(one), lanes(other));
    let (one_lanes, other_lanes) = (one_lanes?, other_lanes?);
    let read = for_each_chunk(source, start, end, |chunk| {
        let chunk: Arc<[u8]> = chunk.into();
        for lane in one_lanes.iter().chain(&other_lanes) {
            // A lane ends only with its queue; a panic in one shows when it is joined.
            let _ = lane.queue.send(Arc::clone(&chunk));
        }
    });
    let joined = (join(one_lanes)?, join(other_lanes)?);
    (*one, *other) = joined;
    Some(read)
}

fn lane<'scope>(scope: &'scope Scope<'scope, '_>, mut hash: Hashes) -> io::Result<Lane<'scope>> {
    let (queue, chunks) = sync_channel::<Arc<[u8]>>(QUEUE_CHUNKS);
    let thread = Builder::new().name("hash".to_owned()).spawn_scoped(scope, move || {
        for chunk in chunks {
            hash.update(&chunk);
        }
        hash
    })?;
    Ok(Lane { queue, thread })
}

fn join(lanes: Vec<Lane<'_>>) -> Option<Hashes> {
    let mut all = Hashes::default();
    for Lane { queue, thread } in lanes {
        drop(queue);
        all.append(thread.join().ok()?);
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rpm::hashes::Algorithm;
    use sealwright_crypto::algorithm::HashAlgorithm;

    const ALL: [Algorithm; 5] = [
        Algorithm::Md5,
        Algorithm::Sha1,
        Algorithm::SHA256,
        Algorithm::Sha2(HashAlgorithm::Sha512),
        Algorithm::Sha3_256,
    ];

    #[test]
    fn threads_and_one_thread_give_the_same_digests() {
        let long: Vec<u8> = (0..THREADS_BYTES_MIN + 12_345).map(|at| (at % 251) as u8).collect();
        for len in [0, 1000, long.len()] {
            let content = long[..len].to_vec();
            let (mut one, mut other, mut plain) = Default::default();
            for set in [&mut one, &mut other, &mut plain] {
                ALL.iter().for_each(|algorithm| Hashes::want(set, *algorithm));
            }
            one.update(b"header");
            plain.update(b"header");
            plain.update(&content);
            let end = content.len() as u64;
            hash_both(&content, 0, end, &mut one, &mut other).unwrap();
            for algorithm in ALL {
                assert_eq!(one.hex(algorithm), plain.hex(algorithm), "{algorithm:?} {len}");
                assert_ne!(other.hex(algorithm), one.hex(algorithm));
            }
        }
    }

    #[test]
    fn a_read_that_fails_is_reported() {
        let content = vec![0; 10];
        let (mut one, mut other) = (Hashes::default(), Hashes::default());
        one.want(Algorithm::Md5);
        assert!(hash_both(&content, 0, THREADS_BYTES_MIN + 1, &mut one, &mut other).is_err());
        assert!(hash_both(&content, 0, 11, &mut one, &mut other).is_err());
    }
}
