//! One client and a signd: bytes in both directions as they come, and a copy of them, as far as copies go.

use std::time::Duration;

use sealwright_obs::limits::{REPLY_BYTES_MAX, REQUEST_BYTES_MAX, REQUEST_HEAD_BYTES};
use sealwright_obs::{Parser, Progress, Refusal, Reply, Request};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::time::{Instant, timeout, timeout_at};

/// For a whole request. Then signd is told that no more comes, and says what it says to half a request.
const REQUEST_MAX: Duration = Duration::from_secs(10);
/// For a whole request and its reply: a busy signd has been seen to take minutes.
const ALL_MAX: Duration = Duration::from_secs(190);
/// How long the client may take to close after the reply: a close with bytes that nobody has read takes the reply back.
const LINGER_MAX: Duration = Duration::from_secs(1);
/// Bytes of one read.
const READ_BYTES: usize = 4 << 10;
/// Bytes of a request that are copied: what ours takes.
const KEPT_MAX: usize = REQUEST_HEAD_BYTES + REQUEST_BYTES_MAX;
/// Bytes of a request that are passed on: its two lengths cannot say more.
const FORWARDED_MAX: usize = REQUEST_HEAD_BYTES + 2 * REQUEST_BYTES_MAX;

/// How it ended.
pub(super) enum End {
    /// signd closed, and the client has all that it sent.
    Whole,
    /// The client did not wait, or took nothing.
    ClientGone,
    /// signd broke off, or was silent for too long.
    SigndLost(String),
}

/// What went to and fro.
pub(super) struct Seen {
    /// At most [`KEPT_MAX`].
    pub(super) request_bytes: Vec<u8>,
    /// There were more.
    pub(super) is_long: bool,
    /// As ours would read it; `None`: it was not complete.
    pub(super) request: Option<Result<Request, Refusal>>,
    /// One byte more than there can be shows that it is too long.
    pub(super) reply: Vec<u8>,
    pub(super) end: End,
}

/// Passes everything on until one end closes, and closes the other.
pub(super) async fn run(mut client: TcpStream, mut signd: TcpStream) -> Seen {
    let (mut up, mut reply) = (Up::default(), Vec::new());
    let both = async {
        client.set_nodelay(true).map_err(|_| End::ClientGone)?;
        let (mut from_client, mut to_client) = client.split();
        let (mut from_signd, mut to_signd) = signd.split();
        tokio::select! {
            gone = up.run(&mut from_client, &mut to_signd) => Err(gone),
            end = down(&mut from_signd, &mut to_client, &mut reply) => end,
        }
    };
    let end = match timeout(ALL_MAX, both).await {
        Ok(Ok(())) => End::Whole,
        Ok(Err(end)) => end,
        Err(_) => End::SigndLost(format!("no end in {} s", ALL_MAX.as_secs())),
    };
    match &end {
        End::Whole => linger(client).await,
        // What the client would see without us.
        End::ClientGone | End::SigndLost(_) => reset(client),
    }
    let Up { request_bytes, seen, request, .. } = up;
    Seen { is_long: seen > request_bytes.len(), request_bytes, request, reply, end }
}

/// Ends a connection without an end of its stream: nobody takes what came for a reply.
pub(super) fn reset(client: TcpStream) {
    // Without it the client reads the end of an empty reply, and says that.
    let _ = rustix::net::sockopt::set_socket_linger(&client, Some(Duration::ZERO));
    drop(client);
}

/// Says why not, in signd's words, after the request: before it, a reset would overtake the text.
pub(super) async fn refuse(mut client: TcpStream, why: &str) {
    let mut parser = Parser::new();
    let request = async {
        let mut bytes = vec![0; READ_BYTES];
        while let Ok(count @ 1..) = client.read(&mut bytes).await {
            if matches!(parser.push(bytes.get(..count).unwrap_or_default()), Progress::Done(_)) {
                return;
            }
        }
    };
    let _ = timeout(REQUEST_MAX, request).await;
    let sent = async {
        client.write_all(&Reply::refused(&why).to_bytes()).await?;
        client.shutdown().await
    };
    if matches!(timeout(LINGER_MAX, sent).await, Ok(Ok(()))) {
        linger(client).await;
    }
}

async fn linger(mut client: TcpStream) {
    let mut bytes = vec![0; READ_BYTES];
    let _ = timeout(LINGER_MAX, async {
        let mut seen = 0_usize;
        while let Ok(count @ 1..) = client.read(&mut bytes).await {
            seen = seen.saturating_add(count);
            if seen > FORWARDED_MAX {
                return;
            }
        }
    })
    .await;
}

/// The way of a request.
#[derive(Default)]
struct Up {
    parser: Parser,
    request_bytes: Vec<u8>,
    seen: usize,
    request: Option<Result<Request, Refusal>>,
}

impl Up {
    /// Ends when the client is gone. Whether signd still listens does not matter: its reply says why it does not.
    async fn run(&mut self, client: &mut ReadHalf<'_>, signd: &mut WriteHalf<'_>) -> End {
        let deadline = Instant::now().checked_add(REQUEST_MAX).unwrap_or_else(Instant::now);
        let mut bytes = vec![0; READ_BYTES];
        while self.seen < FORWARDED_MAX {
            let read = client.read(&mut bytes);
            let read = if self.request.is_some() {
                read.await
            } else {
                match timeout_at(deadline, read).await {
                    Ok(read) => read,
                    Err(_) => break,
                }
            };
            let Ok(count) = read else { return End::ClientGone };
            let piece = bytes.get(..count).unwrap_or_default();
            self.keep(piece);
            if piece.is_empty() || signd.write_all(piece).await.is_err() {
                break;
            }
        }
        let _ = signd.shutdown().await;
        std::future::pending().await
    }

    fn keep(&mut self, piece: &[u8]) {
        let room = KEPT_MAX.saturating_sub(self.request_bytes.len());
        self.request_bytes.extend_from_slice(piece.get(..room).unwrap_or(piece));
        self.seen = self.seen.saturating_add(piece.len());
        if !piece.is_empty()
            && let Progress::Done(request) = self.parser.push(piece)
        {
            self.request = Some(request);
        }
    }
}

async fn down(signd: &mut ReadHalf<'_>, client: &mut WriteHalf<'_>, reply: &mut Vec<u8>) -> Result<(), End> {
    let mut bytes = vec![0; READ_BYTES];
    loop {
        let count = match signd.read(&mut bytes).await {
            Ok(count) => count,
            // A refusal before the request was read is followed by a reset, and is all there is.
            Err(_) if Reply::parse(reply).is_ok() => 0,
            Err(error) => return Err(End::SigndLost(error.to_string())),
        };
        let piece = bytes.get(..count).unwrap_or_default();
        if piece.is_empty() {
            return client.shutdown().await.map_err(|_| End::ClientGone);
        }
        let room = REPLY_BYTES_MAX.saturating_add(1).saturating_sub(reply.len());
        reply.extend_from_slice(piece.get(..room).unwrap_or(piece));
        client.write_all(piece).await.map_err(|_| End::ClientGone)?;
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    /// Two ends of one connection.
    async fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let here = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        (here, listener.accept().await.unwrap().0)
    }

    #[tokio::test]
    async fn a_refusal_before_the_request_reaches_a_client_although_a_reset_follows() {
        let ((mut client, relayed), (asked, mut signd)) = (pair().await, pair().await);
        let refusal = Reply::refused(&"illegal host").to_bytes();
        signd.write_all(&refusal).await.unwrap();
        client.write_all(&[0, 9]).await.unwrap();
        let running = tokio::spawn(run(relayed, asked));
        let mut read = vec![0; refusal.len()];
        client.read_exact(&mut read).await.unwrap();
        reset(signd);
        assert_eq!(client.read(&mut [0]).await.unwrap(), 0, "a regular end");
        drop(client);
        let seen = running.await.unwrap();
        assert!(matches!(seen.end, End::Whole) && seen.request.is_none());
        assert_eq!((read, seen.reply), (refusal.clone(), refusal));
    }

    #[tokio::test]
    async fn half_a_reply_is_half_a_reply_for_the_client_too_and_then_a_reset() {
        let ((mut client, relayed), (asked, mut signd)) = (pair().await, pair().await);
        signd.write_all(&[0, 0, 0, 9]).await.unwrap();
        let running = tokio::spawn(run(relayed, asked));
        let mut read = [0xff; 4];
        client.read_exact(&mut read).await.unwrap();
        reset(signd);
        assert_eq!(read, [0, 0, 0, 9]);
        assert!(client.read(&mut [0]).await.is_err());
        assert!(matches!(running.await.unwrap().end, End::SigndLost(_)));
    }

    #[tokio::test]
    async fn the_longest_request_passes_whole_and_is_not_kept_whole() {
        let ((client, relayed), (asked, mut signd)) = (pair().await, pair().await);
        let (mut read, mut write) = client.into_split();
        let long = [&[0xff; 4][..], &vec![7; 2 * REQUEST_BYTES_MAX]].concat();
        let running = tokio::spawn(run(relayed, asked));
        let sent = long.clone();
        let sending = tokio::spawn(async move { write.write_all(&sent).await.map(|()| write) });
        let mut got = vec![0; long.len()];
        signd.read_exact(&mut got).await.unwrap();
        signd.write_all(b"no").await.unwrap();
        drop(signd);
        let mut said = Vec::new();
        read.read_to_end(&mut said).await.unwrap();
        drop((sending.await.unwrap().unwrap(), read));
        let seen = running.await.unwrap();
        assert!(got == long && said == b"no" && seen.is_long);
        assert_eq!((seen.request_bytes.len(), &seen.reply[..]), (KEPT_MAX, &b"no"[..]));
    }

    #[tokio::test]
    async fn a_client_that_does_not_wait_is_noticed() {
        let ((client, relayed), (asked, _signd)) = (pair().await, pair().await);
        reset(client);
        assert!(matches!(run(relayed, asked).await.end, End::ClientGone));
    }

    #[tokio::test]
    async fn half_a_request_reaches_signd_with_its_end() {
        let ((mut client, relayed), (asked, mut signd)) = (pair().await, pair().await);
        client.write_all(&[0, 9, 0]).await.unwrap();
        client.shutdown().await.unwrap();
        let running = tokio::spawn(run(relayed, asked));
        let mut got = Vec::new();
        signd.read_to_end(&mut got).await.unwrap();
        drop(signd);
        let seen = running.await.unwrap();
        assert!(got == [0, 9, 0] && seen.request.is_none() && matches!(seen.end, End::Whole));
    }
}
