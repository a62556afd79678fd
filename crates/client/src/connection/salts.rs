//! Salts for version 6 signatures, fetched before the contents are hashed.

use sealwright_crypto::algorithm::HashAlgorithm;
use sealwright_proto::convert::salts::{Salts, SaltsRequest};
use sealwright_proto::limits;
use sealwright_proto::names::KeyReference;
use sealwright_proto::status::{Code, Fault};
use sealwright_proto::v1::signing_client::SigningClient;

use super::PATIENCE;
use crate::connection::Connection;
use crate::connection::keys::Repeat;
use crate::error::Error;

impl Connection {
    /// Salts with their tickets, `count` of them (at most [`limits::SALTS_MAX`]). Asked again if that can help: what is
    /// handed out twice is harmless.
    ///
    /// # Errors
    /// The key is not of version 6 or may not be used, the connection was lost, nothing came within a minute, or the
    /// answer breaks a rule.
    pub async fn begin_salts(&self, key: &str, hash: HashAlgorithm, count: usize) -> Result<Salts, Error> {
        let asked = SaltsRequest { key: KeyReference::parse(key)?, hash, count };
        let late = |_| Fault::new(Code::DeadlineExceeded, "no salts came within a minute");
        tokio::time::timeout(PATIENCE, self.ask_for_salts(&asked)).await.map_err(late)?
    }

    async fn ask_for_salts(&self, asked: &SaltsRequest) -> Result<Salts, Error> {
        let begin = async |channel, request| {
            let signing = SigningClient::new(channel);
            signing.max_decoding_message_size(limits::GRPC_MESSAGE_BYTES_MAX).begin_salts(request).await
        };
        let answer = self.call(Repeat::ForFiles, asked.to_wire(), begin).await?;
        Salts::parse(answer, asked).map_err(|source| Error::AnswerRefused { source })
    }
}
