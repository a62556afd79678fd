//! Bytes of one connection: a whole request in, a whole reply out, and an end at which nothing is lost. TCP and TLS alike.

use std::io;
use std::time::Duration;

use sealwright_obs::{Parser, Progress, Refusal, Reply, Request};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::time::timeout;

use super::LINGER_MAX;

/// Bytes of one read. What a request has more goes through it piece by piece.
const READ_BYTES: usize = 2 << 10;

/// Bytes that are thrown away after a reply: what somebody sends who does not look.
const LINGER_BYTES_MAX: usize = 128 << 10;

/// The request, read to its end: also one that will be refused, so that the refusal can be read. `None` if the other end
/// has sent nothing and closed: nobody is there. Who has not sent all of it in `time` is told so.
pub(super) async fn request<S: AsyncRead + Unpin>(
    stream: &mut S,
    time: Duration,
) -> Option<Result<Request, Refusal>> {
    let mut parser = Parser::new();
    let mut has_come = false;
    let read = timeout(time, async {
        let mut bytes = [0; READ_BYTES];
        loop {
            match stream.read(&mut bytes).await {
                Ok(0) | Err(_) => return None,
                Ok(count) => {
                    has_come = true;
                    if let Progress::Done(request) = parser.push(bytes.get(..count).unwrap_or_default()) {
                        return Some(request);
                    }
                }
            }
        }
    });
    match read.await {
        Ok(Some(request)) => Some(request),
        Ok(None) if !has_come => None,
        Ok(None) | Err(_) => Some(Err(parser.cut_short())),
    }
}

/// Sends the reply and closes our side, then waits for the other end to close its own: a close with bytes that nobody
/// has read would take the reply back.
///
/// # Errors
/// The other end went, or takes nothing.
pub(super) async fn reply<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    reply: &Reply,
    time: Duration,
) -> io::Result<()> {
    let bytes = reply.to_bytes();
    let sent = timeout(time, async {
        stream.write_all(&bytes).await?;
        // Over TLS it says first that this is the end.
        stream.shutdown().await
    });
    sent.await.map_err(io::Error::from)??;
    let _ = timeout(LINGER_MAX, async {
        let (mut bytes, mut seen) = ([0; READ_BYTES], 0_usize);
        while seen < LINGER_BYTES_MAX {
            match stream.read(&mut bytes).await {
                Ok(0) | Err(_) => return,
                Ok(count) => seen = seen.saturating_add(count),
            }
        }
    })
    .await;
    Ok(())
}

#[cfg(test)]
mod tests {
    use tokio::io::duplex;

    use super::*;

    /// More than any machine takes for what is there already.
    const LONG: Duration = Duration::from_secs(60);
    const SHORT: Duration = Duration::from_millis(20);

    #[tokio::test]
    async fn a_request_in_pieces_is_read_to_its_end() {
        let (mut here, mut there) = duplex(1);
        let bytes = sealwright_obs::Request::pubkey("user", sealwright_obs::Hash::Sha256).unwrap().to_bytes();
        let sent = bytes.clone();
        let sending = tokio::spawn(async move { there.write_all(&sent).await.map(|()| there) });
        let read = request(&mut here, LONG).await.unwrap().unwrap();
        assert_eq!(read.to_bytes(), bytes);
        drop(sending.await.unwrap());
    }

    #[tokio::test]
    async fn half_a_request_is_told_so_when_the_other_end_closes() {
        let refused = |sent: &'static [u8]| async move {
            let (mut here, mut there) = duplex(64);
            there.write_all(sent).await.unwrap();
            there.shutdown().await.unwrap();
            request(&mut here, LONG).await.map(|request| request.unwrap_err().to_string())
        };
        assert_eq!(refused(b"").await, None);
        assert_eq!(refused(b"\0").await.unwrap(), "packet too small");
        assert_eq!(refused(b"\0\x01\0\x01a").await.unwrap(), "packet read error");
    }

    #[tokio::test]
    async fn a_silent_peer_is_told_so_at_the_deadline() {
        let (mut here, mut there) = duplex(64);
        let begun = tokio::time::Instant::now();
        assert_eq!(request(&mut here, SHORT).await.unwrap().unwrap_err(), Refusal::ZeroSize);
        assert!(begun.elapsed() >= SHORT);
        there.write_all(b"\0\x05\0\0").await.unwrap();
        assert_eq!(request(&mut here, SHORT).await.unwrap().unwrap_err(), Refusal::ReadError);
    }

    #[tokio::test]
    async fn who_still_sends_gets_the_whole_reply() {
        let (mut here, mut there) = duplex(16);
        let refusal = Reply::refused(&"no");
        let other = tokio::spawn(async move {
            there.write_all(&[7; 8]).await.unwrap();
            let mut all = Vec::new();
            there.read_to_end(&mut all).await.map(|_| all)
        });
        reply(&mut here, &refusal, LONG).await.unwrap();
        drop(here);
        assert_eq!(other.await.unwrap().unwrap(), refusal.to_bytes());
    }

    #[tokio::test]
    async fn who_takes_nothing_is_let_go() {
        let (mut here, _there) = duplex(1);
        let error = reply(&mut here, &Reply::refused(&"no"), SHORT).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
}
