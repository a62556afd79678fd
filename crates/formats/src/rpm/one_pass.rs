//! Several hashes over one long stretch of a file, read once: each hash on a thread of its own, because the slowest
//! (MD5, which packages still carry) would otherwise add its time to that of all others. Two SHA-256, as a package takes
//! that is signed over header and payload, share a thread: they are computed two at once. Where there is nothing else, the
//! thread that reads does it, and no byte is copied.

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
    let lanes = split(one.clone(), other.clone());
    if is_long
        && lanes.len() > 1
        && let Some(result) = scope(|scope| on_threads(scope, lanes, source, start, end, one, other))
    {
        return result;
    }
    for_each_chunk(source, start, end, |chunk| Hashes::update_both(one, other, chunk))
}

/// What one thread does: hashes of either set.
#[derive(Default)]
struct Work {
    one: Hashes,
    other: Hashes,
}

/// Each hash alone, but for two SHA-256.
fn split(mut one: Hashes, mut other: Hashes) -> Vec<Work> {
    let mut all = Vec::new();
    match (one.take_sha256(), other.take_sha256()) {
        (Some(one), Some(other)) => all.push(Work { one, other }),
        (Some(one), None) => all.push(Work { one, ..Work::default() }),
        (None, Some(other)) => all.push(Work { other, ..Work::default() }),
        (None, None) => {}
    }
    all.extend(one.split().into_iter().map(|one| Work { one, ..Work::default() }));
    all.extend(other.split().into_iter().map(|other| Work { other, ..Work::default() }));
    all
}

struct Lane<'scope> {
    queue: SyncSender<Arc<[u8]>>,
    thread: ScopedJoinHandle<'scope, Work>,
}

/// `None`, with nothing changed, if the system gives no more threads.
fn on_threads<'scope>(
    scope: &'scope Scope<'scope, '_>,
    work: Vec<Work>,
    source: &dyn ReadAt,
    start: u64,
    end: u64,
    one: &mut Hashes,
    other: &mut Hashes,
) -> Option<io::Result<()>> {
    let lanes: Option<Vec<_>> = work.into_iter().map(|work| lane(scope, work).ok()).collect();
    let lanes = lanes?;
    let read = for_each_chunk(source, start, end, |chunk| {
        let chunk: Arc<[u8]> = chunk.into();
        for lane in &lanes {
            // A lane ends only with its queue; a panic in one shows when it is joined.
            let _ = lane.queue.send(Arc::clone(&chunk));
        }
    });
    let joined = join(lanes)?;
    (*one, *other) = (joined.one, joined.other);
    Some(read)
}

fn lane<'scope>(scope: &'scope Scope<'scope, '_>, mut work: Work) -> io::Result<Lane<'scope>> {
    let (queue, chunks) = sync_channel::<Arc<[u8]>>(QUEUE_CHUNKS);
    let thread = Builder::new().name("hash".to_owned()).spawn_scoped(scope, move || {
        for chunk in chunks {
            Hashes::update_both(&mut work.one, &mut work.other, &chunk);
        }
        work
    })?;
    Ok(Lane { queue, thread })
}

fn join(lanes: Vec<Lane<'_>>) -> Option<Work> {
    let mut all = Work::default();
    for Lane { queue, thread } in lanes {
        drop(queue);
        let work = thread.join().ok()?;
        all.one.append(work.one);
        all.other.append(work.other);
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
    fn two_sha_256_share_a_thread_and_alone_need_none() {
        let (mut one, mut other) = (Hashes::default(), Hashes::default());
        one.want(Algorithm::SHA256);
        other.want(Algorithm::SHA256);
        assert_eq!(split(one.clone(), other.clone()).len(), 1);
        one.want(Algorithm::Md5);
        other.want(Algorithm::SHA512);
        let lanes = split(one, other);
        let sizes: Vec<_> =
            lanes.iter().map(|work| (work.one.split().len(), work.other.split().len())).collect();
        assert_eq!(sizes, [(1, 1), (1, 0), (0, 1)]);
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
