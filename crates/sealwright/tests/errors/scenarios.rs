//! One scenario a code.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use sealwright_client::connection::Connection;
use sealwright_client::connection::remote::{Address, Remote};
use sealwright_client::import::read_secret;
use sealwright_crypto::algorithm::HashAlgorithm;
use sealwright_crypto::tbs::Content;
use sealwright_proto::signer_v1::from_signer::Response;
use sealwright_proto::signer_v1::sign_outcome::Outcome;
use sealwright_proto::status::{Code, Fault};
use sealwright_proto::v1::signing_client::SigningClient;
use sealwright_proto::v1::{DescribeKeyRequest, KeyState, RenewKeyRequest, SetKeyStateRequest, SignGroup};
use sealwright_server::{Error, Front};
use sealwright_testkit::fixtures;
use tonic::Status;

use crate::bench::{Bench, Client, REVOKED_SERIAL, failure, group, group_of};
use crate::certificates::{Wanted, from_now};
use crate::disk::Disk;
use crate::stand::{Act, Stand};
use crate::{Command, Met};

/// No release of the client sends such a request.
const NOT_SENT: Command = Command::CannotMeet("no release of the client sends this");

/// Produces this failure; `Err` says which privilege is missing.
pub(crate) async fn meet(code: Code) -> Result<Met, &'static str> {
    Ok(match code {
        Code::MalformedRequest => changed(|group| group.items.clear()).await,
        Code::LimitExceeded => changed(|group| group.items = vec![group.items[0].clone(); 257]).await,
        Code::Unsupported => changed(|group| group.items[0].usage = 99).await,
        Code::RequestConflict => request_conflict().await,
        Code::PermissionDenied => permission_denied().await,
        Code::UnknownClient => signing_as(Wanted::client("stranger")).await,
        Code::ClientRevoked => {
            signing_as(Wanted { serial: REVOKED_SERIAL.to_vec(), ..Wanted::client("revoked") }).await
        }
        Code::ClientCertificateExpired => client_certificate_expired().await,
        Code::ClientCertificateRefused => {
            let names = vec!["admin".to_owned(), "build".to_owned()];
            signing_as(Wanted { names, ..Wanted::client("admin") }).await
        }
        Code::NotImplemented => not_implemented().await,
        Code::KeyNotFound => key_not_found().await,
        Code::KeyDisabled => key_disabled().await,
        Code::KeyExpired => key_expired().await,
        Code::KeyExists => created("release").await,
        Code::NameNotAllowed => name_not_allowed().await,
        Code::UsageNotAllowed => stored("UPDATE keys SET usages = x''").await,
        Code::KeyChanged => key_changed().await,
        Code::ImportRefused => imported("gen_nistp256.sec.asc", None).await,
        Code::PassphraseWrong => imported("gen_rsa3072-passphrase.sec.asc", Some("not this one")).await,
        Code::NotRenewable => not_renewable().await,
        // A version 4 key takes none.
        Code::TicketRefused => changed(|group| group.items[0].ticket = vec![7; 366]).await,
        Code::KeyHereAlready => key_here_already().await,
        Code::ClockBehind => clock_behind().await,
        Code::RootKeyWrong => root_key_wrong().await,
        Code::RootKeyUnusable => {
            restarted(|stand| {
                let others_may_read = fs::Permissions::from_mode(0o644);
                fs::set_permissions(stand.root().join("root.key"), others_may_read).unwrap();
            })
            .await
        }
        Code::SealBroken => {
            stored("UPDATE keys SET sealed = CAST(substr(sealed, 1, length(sealed) - 1) || x'00' AS BLOB)")
                .await
        }
        Code::GenerationSuperseded => generation_superseded().await,
        Code::SignerStateFailed => signer_state_failed().await,
        Code::SelfTestFailed | Code::ConfinementFailed => broken_machine(code).await,
        Code::SignerFileDamaged => {
            restarted(|stand| {
                let floors = stand.root().join("floors");
                fs::write(&floors, "not what was written\n").unwrap();
                fs::set_permissions(&floors, fs::Permissions::from_mode(0o600)).unwrap();
            })
            .await
        }
        Code::RootKeyMissing => {
            restarted(|stand| fs::remove_file(stand.root().join("root.key")).unwrap()).await
        }
        Code::StoreMismatch => restarted(|stand| fs::remove_dir_all(stand.root()).unwrap()).await,
        Code::TokenGone | Code::TokenSilent => token_trouble(code).await,
        Code::TokenRefused => token_refused().await,
        Code::SignerGone => signer_gone().await,
        Code::Overloaded => overloaded().await,
        Code::DeadlineExceeded => deadline_exceeded().await,
        Code::ShuttingDown => shutting_down().await,
        Code::StoreFailed => store_failed().await,
        Code::StoreNewer => store_newer().await,
        Code::StoreFull => return store_full().await,
        Code::SignatureSelfCheckFailed => signature_self_check_failed().await,
        Code::Internal => internal().await,
    })
}

/// Of a group, with what a command that signs meets.
async fn signing(bench: &Bench) -> Met {
    let fault = failure(bench.sign(group("release").to_wire()).await.unwrap());
    let command = Command::Ran(bench.sign_command(&bench.client("admin"), "release"));
    Met { fault, status: None, command }
}

/// Of a call.
fn called(status: Status, command: Command) -> Met {
    Met { fault: Fault::from(&status), status: Some(status), command }
}

/// A message that breaks a rule.
async fn changed(change: impl FnOnce(&mut SignGroup)) -> Met {
    let bench = Bench::start().await;
    let mut group = group("release").to_wire();
    change(&mut group);
    Met { fault: failure(bench.sign(group).await.unwrap()), status: None, command: NOT_SENT }
}

async fn request_conflict() -> Met {
    let bench = Bench::start().await;
    let first = group("release");
    let mut other = group("release");
    other.request_id = first.request_id;
    other.salt = true;
    bench.sign(first.to_wire()).await.unwrap();
    Met { fault: failure(bench.sign(other.to_wire()).await.unwrap()), status: None, command: NOT_SENT }
}

async fn permission_denied() -> Met {
    let bench = Bench::start().await;
    bench.create("other").await.unwrap();
    let build = bench.client("build");
    let fault = failure(bench.sign_as(&build, group("other").to_wire()).await.unwrap());
    Met { fault, status: None, command: Command::Ran(bench.sign_command(&build, "other")) }
}

/// The whole stream is refused.
async fn signing_as(wanted: Wanted) -> Met {
    let bench = Bench::start().await;
    let client = bench.client_with("peer", wanted);
    let status = bench.sign_as(&client, group("release").to_wire()).await.unwrap_err();
    called(status, Command::Ran(bench.sign_command(&client, "release")))
}

/// It was good when the connection was made, and has ended since.
async fn client_certificate_expired() -> Met {
    let bench = Bench::start().await;
    let client = bench.client_with("short", Wanted { not_after: from_now(3), ..Wanted::client("admin") });
    let mut keys = sealwright_proto::v1::keys_client::KeysClient::new(bench.channel(&client).await);
    let mut describe = async || keys.describe(DescribeKeyRequest { key: "release".to_owned() }).await;
    describe().await.unwrap();
    let status = loop {
        match describe().await {
            Ok(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            Err(status) => break status,
        }
    };
    called(
        status,
        Command::CannotMeet("the command looks at its own certificate first, and asks for a new one"),
    )
}

/// A call of a release that this server is not.
async fn not_implemented() -> Met {
    use tonic::codegen::{Service as _, http};
    let bench = Bench::start().await;
    let mut channel = bench.channel(&bench.client("admin")).await;
    let request = http::Request::post("http://localhost/sealwright.v1.Keys/Other")
        .header("content-type", "application/grpc")
        .body(tonic::body::Body::empty())
        .unwrap();
    std::future::poll_fn(|context| channel.poll_ready(context)).await.unwrap();
    let response = channel.call(request).await.unwrap();
    let status = Status::from_header_map(response.headers()).unwrap();
    called(status, Command::CannotMeet("client and server of one release have the same calls"))
}

async fn key_not_found() -> Met {
    let bench = Bench::start().await;
    let status = describe(&bench, "nothere").await.unwrap_err();
    called(status, Command::Ran(bench.command(&bench.client("admin"), &["key", "show", "nothere"])))
}

async fn describe(bench: &Bench, key: &str) -> Result<(), Status> {
    bench.keys().await.describe(DescribeKeyRequest { key: key.to_owned() }).await.map(|_| ())
}

async fn key_disabled() -> Met {
    let bench = Bench::start().await;
    let state = SetKeyStateRequest { key: "release".to_owned(), state: KeyState::Disabled.into() };
    bench.keys().await.set_state(state).await.unwrap();
    signing(&bench).await
}

async fn key_expired() -> Met {
    let bench = Bench::start().await;
    bench.create_for("short", Some(1)).await.unwrap();
    let fault = loop {
        let answer = bench.sign(group("short").to_wire()).await.unwrap();
        let is_refused = answer.failure.is_some()
            || answer.items.iter().any(|item| {
                matches!(item.outcome, Some(sealwright_proto::v1::sign_item_result::Outcome::Failure(_)))
            });
        if is_refused {
            break failure(answer);
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    Met { fault, status: None, command: Command::Ran(bench.sign_command(&bench.client("admin"), "short")) }
}

async fn name_not_allowed() -> Met {
    let bench = Bench::start().await;
    let status = bench.create("a b").await.unwrap_err();
    called(status, Command::CannotMeet("the command line refuses such a name before it asks"))
}

async fn created(name: &str) -> Met {
    let bench = Bench::start().await;
    let status = bench.create(name).await.unwrap_err();
    let command = bench.command(&bench.client("admin"), &["key", "create", name, "--algorithm", "ed25519"]);
    called(status, Command::Ran(command))
}

/// A store that was changed behind front's back.
async fn stored(statement: &str) -> Met {
    let mut bench = Bench::start().await;
    bench.restart_after(statement).await;
    signing(&bench).await
}

/// Somebody renews the key while it signs, each time.
async fn key_changed() -> Met {
    let bench = Bench::start().await;
    let (keys, runtime) = (bench.keys().await, tokio::runtime::Handle::current());
    bench.stand.on_signed(move |_| {
        let mut keys = keys.clone();
        let renew = RenewKeyRequest { key: "release".to_owned(), valid_for_s: None };
        runtime.block_on(async { keys.renew(renew).await }).unwrap();
    });
    signing(&bench).await
}

async fn connection(bench: &Bench, client: &Client) -> Connection {
    let port = bench.port();
    let address = Address::parse(&format!("https://localhost:{port}")).unwrap();
    Connection::remote(Remote::new(vec![address], client.credentials().load().unwrap()).unwrap())
}

/// A secret travels encrypted, so it is the client's own code that sends it.
async fn imported(file: &str, passphrase: Option<&str>) -> Met {
    let bench = Bench::start().await;
    let admin = bench.client("admin");
    let key = fixtures::key(file);
    let passphrase = passphrase.map(|text| {
        let path = bench.folder.path().join("passphrase");
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        path
    });
    let secret = read_secret(&key, passphrase.as_deref(), None).unwrap();
    let error = connection(&bench, &admin).await.import("imported", secret).await.unwrap_err();
    let mut words = vec!["key", "import", "imported", key.to_str().unwrap()];
    if let Some(passphrase) = &passphrase {
        words.extend(["--passphrase-file", passphrase.to_str().unwrap()]);
    }
    Met { fault: of_server(error), status: None, command: Command::Ran(bench.command(&admin, &words)) }
}

fn of_server(error: sealwright_client::error::Error) -> Fault {
    let sealwright_client::error::Error::Server(fault) = error else {
        panic!("not from the server: {error:?}")
    };
    fault
}

async fn import(bench: &Bench, name: &str, file: &str) -> Result<(), sealwright_client::error::Error> {
    let secret = read_secret(&fixtures::key(file), None, None).unwrap();
    connection(bench, &bench.client("admin")).await.import(name, secret).await.map(|_| ())
}

/// Only the signing subkey is here.
async fn not_renewable() -> Met {
    let bench = Bench::start().await;
    import(&bench, "imported", "gen_stubprimary.secsub.asc").await.unwrap();
    let renew = RenewKeyRequest { key: "imported".to_owned(), valid_for_s: Some(86_400) };
    let status = bench.keys().await.renew(renew).await.unwrap_err();
    let words = ["key", "renew", "imported", "--expires", "1y"];
    called(status, Command::Ran(bench.command(&bench.client("admin"), &words)))
}

async fn key_here_already() -> Met {
    let bench = Bench::start().await;
    import(&bench, "first", "gen_ed25519.sec.asc").await.unwrap();
    let fault = of_server(import(&bench, "second", "gen_ed25519.sec.asc").await.unwrap_err());
    let file = fixtures::key("gen_ed25519.sec.asc");
    let words = ["key", "import", "second", file.to_str().unwrap()];
    Met { fault, status: None, command: Command::Ran(bench.command(&bench.client("admin"), &words)) }
}

async fn clock_behind() -> Met {
    let bench = Bench::start().await;
    bench.stand.shift_clock(3_600);
    bench.sign(group("release").to_wire()).await.unwrap();
    bench.stand.shift_clock(0);
    signing(&bench).await
}

/// The sealed key of another installation stands in the place of this one's.
async fn root_key_wrong() -> Met {
    let other = Bench::start().await;
    let sealed = other.sql("SELECT hex(sealed) FROM keys").remove(0);
    stored(&format!("UPDATE keys SET sealed = x'{sealed}'")).await
}

/// A backup of the store from before a renewal.
async fn generation_superseded() -> Met {
    let mut bench = Bench::start().await;
    let old = bench.sql("SELECT hex(sealed) FROM keys").remove(0);
    let renew = RenewKeyRequest { key: "release".to_owned(), valid_for_s: None };
    bench.keys().await.renew(renew).await.unwrap();
    bench.sign(group("release").to_wire()).await.unwrap();
    bench.sql(&format!("UPDATE keys SET sealed = x'{old}'"));
    bench.restart_after("UPDATE key_states SET generation = 1").await;
    signing(&bench).await
}

/// The signer cannot write down which numbers it uses.
async fn signer_state_failed() -> Met {
    let bench = Bench::start().await;
    // Its files can no more be looked at than written.
    fs::remove_dir_all(bench.stand.root()).unwrap();
    fs::write(bench.stand.root(), "").unwrap();
    signing(&bench).await
}

/// The signer dies, and the next one finds its files like this.
async fn restarted(change: impl FnOnce(&Stand)) -> Met {
    let bench = Bench::start().await;
    bench.sign(group("release").to_wire()).await.unwrap();
    change(&bench.stand);
    bench.stand.kill();
    signing(&bench).await
}

/// By a stand-in: no test breaks a processor, or takes locked memory away from a whole machine.
async fn broken_machine(code: Code) -> Met {
    let bench = Bench::start().await;
    bench.stand.kill_and_fail(code);
    signing(&bench).await
}

/// By a stand-in: a token needs a module, and a hand that pulls it out (`tests/tokens.rs` has both).
async fn token_trouble(code: Code) -> Met {
    let bench = Bench::start().await;
    bench.stand.on_sign(move || {
        Act::Answer(Box::new(Response::Failure(Fault::new(code, "token hsm1: its worker ended").into())))
    });
    signing(&bench).await
}

async fn token_refused() -> Met {
    let bench = Bench::start().await;
    let status = bench.create_on("new", None, "hsm1").await.unwrap_err();
    let arguments = ["key", "create", "new", "--token", "hsm1"];
    let command = bench.command(&bench.client("admin"), &arguments);
    called(status, Command::Ran(command))
}

async fn signer_gone() -> Met {
    let bench = Bench::start().await;
    bench.stand.kill_for_good();
    signing(&bench).await
}

/// One group holds all bytes that may be held, and is not answered; another finds no room.
async fn overloaded() -> Met {
    let bench = Bench::start().await;
    bench.stand.on_sign(|| Act::Forget);
    let large = || {
        let mut group = group_of("release", Content::Inline(HashAlgorithm::Sha256, vec![0; 4 << 20]));
        group.deadline_ms = 10_000;
        group.to_wire()
    };
    let (first, second) = tokio::join!(bench.sign(large()), bench.sign(large()));
    let faults = [first, second].map(|answer| failure(answer.unwrap()));
    let fault = faults.into_iter().find(|fault| fault.code == Code::Overloaded).expect("one is refused");
    Met { fault, status: None, command: Command::CannotMeet("it waits and asks again for a minute") }
}

async fn deadline_exceeded() -> Met {
    let bench = Bench::start().await;
    bench.stand.on_sign(|| Act::Forget);
    let mut group = group("release");
    group.deadline_ms = 300;
    let fault = failure(bench.sign(group.to_wire()).await.unwrap());
    Met { fault, status: None, command: Command::CannotMeet("it is ready to wait for a minute") }
}

/// A group on an open stream, while another is in flight.
async fn shutting_down() -> Met {
    let bench = Bench::start().await;
    let (asked, mut batches) = tokio::sync::mpsc::unbounded_channel();
    bench.stand.on_sign(move || {
        asked.send(()).unwrap();
        Act::Forget
    });
    let (groups, stream) = tokio::sync::mpsc::channel(2);
    let mut signing = SigningClient::new(bench.channel(&bench.client("admin")).await);
    let mut held = group("release");
    held.deadline_ms = 10_000;
    groups.send(held.to_wire()).await.unwrap();
    let stream = tokio_stream::wrappers::ReceiverStream::new(stream);
    let mut answers = signing.sign(stream).await.unwrap().into_inner();
    batches.recv().await.unwrap();
    let service = bench.service.clone();
    let draining = tokio::spawn(async move { service.drain(Duration::from_secs(20)).await });
    while tokio::net::TcpStream::connect(("127.0.0.1", bench.port())).await.is_ok() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    groups.send(group("release").to_wire()).await.unwrap();
    let fault = failure(answers.message().await.unwrap().unwrap());
    draining.abort();
    Met { fault, status: None, command: Command::CannotMeet("it goes to the next server, or finds none") }
}

async fn store_failed() -> Met {
    let bench = Bench::start().await;
    bench.sql("ALTER TABLE intents RENAME TO elsewhere");
    signing(&bench).await
}

/// A front does not open such a store at all, so on the wire it is only passed on; here by the signer.
async fn store_newer() -> Met {
    let bench = Bench::start().await;
    bench.stand.on_sign(|| {
        Act::Answer(Box::new(Response::Failure(
            Fault::new(Code::StoreNewer, "written by a newer release").into(),
        )))
    });
    let met = signing(&bench).await;
    bench.sql("UPDATE _sqlx_migrations SET version = 9000 WHERE version = (SELECT max(version) FROM _sqlx_migrations)");
    let (socket, _signer) = std::os::unix::net::UnixStream::pair().unwrap();
    let refused = Front::start(sealwright_server::Config::default(), &bench.store(), socket).await;
    let newer = matches!(refused, Err(Error::Store(sealwright_store::Error::NewerStore { .. })));
    assert!(newer, "a front opened a store of a newer release");
    met
}

async fn store_full() -> Result<Met, &'static str> {
    let disk = Disk::tmpfs(2048).ok_or("only root can mount a small disk")?;
    let folder = tempfile::tempdir().unwrap();
    let bench = Bench::start_in(folder, disk.path().join("store")).await;
    disk.fill_but(0);
    let met = signing(&bench).await;
    bench.end().await;
    Ok(met)
}

/// By a stand-in: a bit of the signature is another when it leaves the signer.
async fn signature_self_check_failed() -> Met {
    let bench = Bench::start().await;
    spoil(&bench, |signature| signature.packet.truncate(10));
    signing(&bench).await
}

/// By a stand-in: an answer that is missing.
async fn internal() -> Met {
    let bench = Bench::start().await;
    bench.stand.on_signed(|response| {
        if let Response::Sign(result) = response {
            result.items.clear();
        }
    });
    signing(&bench).await
}

fn spoil(bench: &Bench, change: fn(&mut sealwright_proto::signer_v1::SignerSignature)) {
    bench.stand.on_signed(move |response| {
        let Response::Sign(result) = response else { return };
        for item in &mut result.items {
            if let Some(Outcome::Signature(signature)) = &mut item.outcome {
                change(signature);
            }
        }
    });
}
