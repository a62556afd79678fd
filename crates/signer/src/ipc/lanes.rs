//! Queues in front of tokens: each has its own, with threads that wait for that token and for nothing else.

use sealwright_proto::status::{Code, Fault};

use super::Job;
use super::queue::Queue;
use crate::tokens::Tokens;

/// Items that wait for one token, at most: at a token's usual 100 a second, as many as a client waits for.
const WAITING_MAX: usize = 2048;
/// When those above it are told to come again, in milliseconds.
const COME_AGAIN_MS: u32 = 2_000;

/// One queue for each token.
pub(super) struct Lanes(Vec<Lane>);

struct Lane {
    token: String,
    threads: u32,
    queue: Queue<Job>,
}

impl Lanes {
    pub(super) fn new(tokens: &Tokens) -> Self {
        let lane = |token: &std::sync::Arc<crate::tokens::Token>| Lane {
            token: token.name().to_string(),
            threads: token.threads(),
            queue: Queue::new(),
        };
        Self(tokens.iter().map(lane).collect())
    }

    /// Names of the threads that there shall be, each with its queue.
    pub(super) fn threads(&self) -> impl Iterator<Item = (String, &Queue<Job>)> {
        self.0.iter().flat_map(|lane| {
            (0..lane.threads).map(move |number| (format!("wait-{}-{number}", lane.token), &lane.queue))
        })
    }

    /// The queue of a token, if it has room.
    ///
    /// # Errors
    /// [`Code::Overloaded`]; [`Code::Internal`] if there is no such token.
    pub(super) fn queue(&self, lane: usize) -> Result<&Queue<Job>, Fault> {
        let lane = self.0.get(lane).ok_or_else(|| Fault::new(Code::Internal, "a token without a queue"))?;
        if lane.queue.len() >= WAITING_MAX {
            let message = format!("too many requests wait for token {}", lane.token);
            return Err(Fault::new(Code::Overloaded, message).retry_after(COME_AGAIN_MS));
        }
        Ok(&lane.queue)
    }

    /// Nobody waits for what is in them.
    pub(super) fn drop_all(&self) {
        for lane in &self.0 {
            lane.queue.clear();
        }
    }

    /// What is in them is still handed out.
    pub(super) fn close(&self) {
        for lane in &self.0 {
            lane.queue.close();
        }
    }
}
