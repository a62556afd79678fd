//! Makes many keys, as a person would make one.

use futures_util::StreamExt as _;
use sealwright_proto::v1::CreateKeyRequest;
use sealwright_proto::v1::keys_client::KeysClient;

use crate::line::Line;

/// Asked for at once: those that wait for the store share its commits.
const IN_FLIGHT: usize = 64;

/// Ed25519 keys `PREFIX-0` to the number before `count`.
pub(crate) async fn run(line: &Line, prefix: &str, count: u64) {
    let client = KeysClient::new(line.connect().await.unwrap());
    futures_util::stream::iter(0..count)
        .for_each_concurrent(IN_FLIGHT, |number| {
            let mut client = client.clone();
            let request = CreateKeyRequest {
                name: format!("{prefix}-{number}"),
                algorithm: "ed25519".to_owned(),
                user_id: format!("Load {number} <load@example.invalid>"),
                ..CreateKeyRequest::default()
            };
            async move {
                client.create(request).await.unwrap();
            }
        })
        .await;
    println!("{{\"keys\":{count}}}");
}
