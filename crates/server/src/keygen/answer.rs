//! Answers in the words of copr-keygen: an empty body for what was done, its text form of an exception for what was not.

use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Bytes;
use sealwright_proto::status::{Code, Fault};

use super::query::Bad;
use crate::fault::for_peer;

pub(super) type Answer = Response<Full<Bytes>>;

/// Byte for byte what copr-keygen sends.
const PLAIN: HeaderValue = HeaderValue::from_static("text/plain;charset=UTF-8");

/// What is not done.
#[derive(Debug)]
pub(super) enum Refusal {
    /// The request cannot be honoured.
    Bad(Bad),
    /// It came with other bytes than a request has, or too slowly.
    Body(StatusCode, &'static str),
    /// The token that the operator asks for is missing, or another.
    Token,
    /// Anything else.
    Fault(Fault),
}

impl From<Bad> for Refusal {
    fn from(bad: Bad) -> Self {
        Self::Bad(bad)
    }
}

impl From<Fault> for Refusal {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl Refusal {
    /// As metrics and lines name it.
    pub(super) const fn code(&self) -> Code {
        match self {
            Self::Bad(_) | Self::Body(..) => Code::MalformedRequest,
            Self::Token => Code::PermissionDenied,
            Self::Fault(fault) => fault.code,
        }
    }

    /// For a line; nothing of it is the client's own word but the name of a key.
    pub(super) fn reason(&self) -> String {
        match self {
            Self::Bad(bad) => bad.to_string(),
            Self::Body(_, what) => (*what).to_owned(),
            Self::Token => "the token is missing, or not the one of this server".to_owned(),
            Self::Fault(fault) => fault.message.clone(),
        }
    }

    /// What the client reads.
    pub(super) fn answer(&self) -> Answer {
        let reason = self.reason();
        match self {
            Self::Bad(_) => exception(StatusCode::BAD_REQUEST, &reason),
            Self::Body(status, _) => exception(*status, &reason),
            Self::Token => {
                let mut answer = exception(StatusCode::UNAUTHORIZED, &reason);
                answer.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
                answer
            }
            Self::Fault(fault) => {
                let fault = for_peer(fault.clone());
                let mut answer = exception(status_of(fault.code), &fault.message);
                if let Some(ms) = fault.retry_after_ms {
                    answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from(ms.div_ceil(1_000)));
                }
                answer
            }
        }
    }
}

/// copr-keygen knows 400 and 500. What passes is 503 here, which its client treats alike, and who may not is told apart.
#[expect(clippy::wildcard_enum_match_arm, reason = "whatever else there is, is a failure of this server")]
const fn status_of(code: Code) -> StatusCode {
    match code {
        Code::PermissionDenied | Code::UnknownClient | Code::ClientRevoked => StatusCode::FORBIDDEN,
        code if code.is_retryable() => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// Done, with nothing to say.
pub(super) fn done(status: StatusCode) -> Answer {
    plain(status, String::new())
}

/// `/ping`.
pub(super) fn pong() -> Answer {
    plain(StatusCode::OK, "pong\n".to_owned())
}

/// No such path.
pub(super) fn not_found() -> Answer {
    plain(StatusCode::NOT_FOUND, "there are /ping and /gen_key\n".to_owned())
}

/// Another method than this path has.
pub(super) fn not_allowed(allowed: &'static str) -> Answer {
    let mut answer = plain(StatusCode::METHOD_NOT_ALLOWED, format!("only {allowed}\n"));
    answer.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
    answer
}

fn exception(status: StatusCode, reason: &str) -> Answer {
    plain(status, format!("Keygen service error\nargs: ({},)\nkwargs: {{}}\n", repr(reason)))
}

fn plain(status: StatusCode, body: String) -> Answer {
    let mut answer = Response::new(Full::new(Bytes::from(body)));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, PLAIN);
    answer.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    answer
}

/// A text as Python shows it.
fn repr(text: &str) -> String {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    let mut shown = String::from(quote);
    for char in text.chars() {
        match char {
            '\\' => shown.push_str("\\\\"),
            '\n' => shown.push_str("\\n"),
            char if char == quote => shown.extend(['\\', char]),
            char if char.is_control() => shown.push('?'),
            char => shown.push(char),
        }
    }
    shown.push(quote);
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_shown_as_python_shows_it() {
        for (text, shown) in [
            (
                "Request query missing required parameter `name_real`",
                "'Request query missing required parameter `name_real`'",
            ),
            ("it's", "\"it's\""),
            ("a \"b\"", "'a \"b\"'"),
            ("it's \"b\"", "'it\\'s \"b\"'"),
            ("a\\b\nc", "'a\\\\b\\nc'"),
        ] {
            assert_eq!(repr(text), shown);
        }
    }

    #[test]
    fn what_passes_is_to_be_asked_again_and_who_may_not_is_told_apart() {
        for (code, status) in [
            (Code::PermissionDenied, 403),
            (Code::ClientRevoked, 403),
            (Code::Overloaded, 503),
            (Code::ShuttingDown, 503),
            (Code::SignerGone, 503),
            (Code::DeadlineExceeded, 503),
            (Code::StoreFull, 500),
            (Code::SignerStateFailed, 500),
            (Code::Internal, 500),
        ] {
            let answer = Refusal::Fault(Fault::new(code, "x")).answer();
            assert_eq!(answer.status().as_u16(), status, "{code}");
            assert_eq!(answer.headers().contains_key(RETRY_AFTER), status == 503, "{code}");
        }
    }
}
