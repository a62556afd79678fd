//! `sealwright demo`: the main job from start to end on real packages, in a fresh folder. Nothing in it is
//! special: the same store, signer, pipeline and checks as `key create`, `sign` and `verify`.

use std::io::{Error as IoError, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use sealwright_client::apply::Policy;
use sealwright_client::batch::{self, Observer, Stop};
use sealwright_client::connection::{Connection, Key, NewKey, Priority};
use sealwright_client::sign::{Done, Effect, FileReport, Request, Signer};
use sealwright_client::source::{self, Directories};
use sealwright_client::{trust, verify};
use sealwright_crypto::algorithm::KeyVersion;
use sealwright_crypto::openpgp::certificate::Keyring;
use sealwright_crypto::openpgp::verify::State;
use sealwright_crypto::usage::Usage;
use sealwright_formats::options::SignOptions;

use crate::cli::Context;
use crate::config::Places;
use crate::embedded::Embedded;
use crate::failure::{Exit, Failure};
use crate::terminal;

/// `sealwright demo`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Folder with packages to sign copies of.
    #[arg(long, value_name = "DIR", default_value = "fixtures/rpm")]
    packages: PathBuf,
    /// Algorithm of the key.
    #[arg(long, value_name = "ALGORITHM", default_value = "rsa4096", value_parser = ["rsa2048", "rsa3072", "rsa4096", "ed25519"])]
    algorithm: String,
}

/// The packages of `fixtures/rpm` that show one case each. Another folder is signed whole.
const SHOWN: [&str; 16] = [
    "cav_centos-release-as-2.1AS-4.noarch.rpm", // built by rpm 4.0.4, DSA signature of 2002
    "rpmorg_hello-1.0-1.i386.rpm",              // rpm 4.4, no payload digest
    "cav_centos-release-6-0.el6.centos.5.i686.rpm", // version 3 signatures in both tags
    "copr_rare_example-1.0.3-2.fc23.x86_64.rpm", // signed by Copr
    "rpmorg_hello-2.0-1.x86_64.rpm",            // version 4
    "rhs_centos-stream-release-9.0-1.c9s.noarch.rpm", // a distribution's release package
    "libdnf_grub2-2.02-0.40.s390x.rpm",         // big-endian architecture
    "rpmlint_not-compressed-multi-spec-1.0-0.src.rpm", // source package
    "qubes_lua-5.4.2-1.fc33.x86_64.rpm",        // signed by Qubes, header and payload
    "signatrust_Imath-3.1.4-1.oe2303.x86_64.rpm", // signed by openEuler
    "rpmorg_imatest-1.0-1.fc34.noarch.rpm",     // file signatures
    "rpmorg_hello-2.0-1.x86_64-badima.rpm",     // file signatures outside the region
    "gru_test-1.0.0.x86_64.rpm",                // built by nfpm, no space reserved
    "gen_manyfiles-12000.rpm",                  // 12,000 files
    "rpmrs_v6_rpm-basic-2.3.4-5.el9.noarch.rpm", // version 6
    "rpmrs_SRPM_v6_rpm-basic-2.3.4-5.el9.src.rpm", // version 6 source package
];

const KEY: &str = "demo";

pub(crate) async fn run(args: Args, context: Context) -> Result<Exit, Failure> {
    let found = find_packages(&args.packages)?;
    let folder = tempfile::Builder::new()
        .prefix("sealwright-demo-")
        .tempdir()
        .map_err(|error| cannot("make a folder", &error))?
        .keep();
    let files = copy_packages(&args.packages, &found, &folder)?;
    let places = Places::under(&folder.join("home"));
    if !context.json {
        terminal::out(&format!("A store and a key ({}) in {} ...", args.algorithm, folder.display()));
    }
    let embedded = Embedded::start(&places).await?;
    let outcome = sign_and_verify(&embedded.connection, &args.algorithm, &files, &folder, context).await;
    embedded.stop().await;
    let failed = outcome?;
    if !context.json {
        next_steps(&folder);
    }
    Ok(if failed == 0 { Exit::Done } else { Exit::Failed })
}

fn unreadable(from: &Path, error: &IoError) -> Failure {
    Failure::failed(
        format!("cannot read the packages in {}: {error}", from.display()),
        "Run it in the source tree of Sealwright, or name a folder with --packages DIR.",
    )
}

fn find_packages(from: &Path) -> Result<Vec<PathBuf>, Failure> {
    let mut found: Vec<PathBuf> = std::fs::read_dir(from)
        .and_then(|entries| entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>())
        .map_err(|error| unreadable(from, &error))?;
    let shown =
        |path: &PathBuf| path.file_name().is_some_and(|name| SHOWN.iter().any(|shown| name == *shown));
    if found.iter().any(shown) {
        found.retain(shown);
    }
    found.retain(|path| path.extension().is_some_and(|extension| extension == "rpm"));
    found.sort();
    if found.is_empty() {
        return Err(Failure::failed(
            format!("there is no package (.rpm) in {}", from.display()),
            "Name a folder with packages: --packages DIR.",
        ));
    }
    Ok(found)
}

fn copy_packages(from: &Path, found: &[PathBuf], folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let target = folder.join("packages");
    std::fs::create_dir(&target).map_err(|error| cannot("make a folder", &error))?;
    found
        .iter()
        .map(|path| {
            let copy = target.join(path.file_name().unwrap_or_default());
            std::fs::copy(path, &copy).map(|_| copy).map_err(|error| unreadable(from, &error))
        })
        .collect()
}

async fn sign_and_verify(
    connection: &Connection,
    algorithm: &str,
    files: &[PathBuf],
    folder: &Path,
    context: Context,
) -> Result<usize, Failure> {
    let refused =
        |error: sealwright_client::error::Error| Failure::failed(Failure::chain(&error), error.advice());
    let new = NewKey {
        name: KEY.to_owned(),
        algorithm: algorithm.to_owned(),
        user_id: "Sealwright demo <demo@sealwright.invalid>".to_owned(),
        valid_for_s: None,
        signing_subkey: false,
        version: KeyVersion::V4,
        token: None,
        usages: vec![Usage::OpenPgp],
        bare_digests_on_primary: false,
    };
    let key = connection.create(new).await.map_err(refused)?;
    let (certificate, _) = key.parse_certificate().map_err(refused)?;
    let armored = folder.join("demo.asc");
    std::fs::File::create(&armored)
        .and_then(|mut file| file.write_all(certificate.to_armor().as_bytes()))
        .map_err(|error| cannot("write the certificate", &error))?;

    let request = Request {
        options: SignOptions::default(),
        format: None,
        salt: false,
        effect: Effect::Write,
        priority: Priority::Interactive,
        policy: Policy::default(),
    };
    let signer = Arc::new(Signer::new(connection.clone(), KEY, request, None).await.map_err(refused)?);
    let stop = Stop::on_signals().map_err(|error| cannot("catch signals", &error))?;
    let listing = source::list(files, Directories::Refuse);
    let mut reports = Reports::default();
    let summary = batch::sign(&signer, listing, batch::default_jobs(), &stop, &mut reports).await;
    reports.0.sort_by(|a, b| a.file.cmp(&b.file));

    let keyring = trust::of(certificate);
    let rpmkeys = Rpmkeys::with_key(folder, &armored);
    let mut failed = summary.failed;
    for row in &mut reports.0 {
        if row.signed {
            row.verify(&keyring, rpmkeys.as_ref());
            failed = failed.saturating_add(usize::from(!row.verified));
        }
    }
    if context.json {
        reports.0.iter().for_each(terminal::json);
    } else {
        print(&reports.0, &key, rpmkeys.is_some(), summary.elapsed);
    }
    Ok(failed)
}

/// One line of the table.
#[derive(Debug, Default, serde::Serialize)]
struct Row {
    file: String,
    #[serde(skip)]
    path: PathBuf,
    status: &'static str,
    format: String,
    signed: bool,
    /// The tags that hold signatures, or why there is none.
    what: String,
    size: u64,
    sent_bytes: u64,
    written_bytes: u64,
    time_ms: u128,
    verified: bool,
    verified_by: String,
}

#[derive(Default)]
struct Reports(Vec<Row>);

impl Observer for Reports {
    fn finished(&mut self, report: &FileReport) {
        let file = report.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut row = Row {
            file,
            path: report.path.clone(),
            format: report.format.unwrap_or("?").to_owned(),
            size: report.size,
            sent_bytes: report.sent_bytes,
            time_ms: report.elapsed.as_millis(),
            ..Row::default()
        };
        match &report.outcome {
            Ok(Done::Signed(signed)) => {
                row.signed = true;
                row.status = "signed";
                row.written_bytes = signed.written.bytes;
            }
            Ok(Done::Unchanged { why, .. }) => {
                row.status = "unchanged";
                row.what.clone_from(why);
            }
            Ok(Done::WouldSign { .. } | Done::Skipped) => {
                row.status = "skipped";
                "not signed".clone_into(&mut row.what);
            }
            Err(error) => {
                row.status = "failed";
                row.what = format!("FAILED: {}", Failure::chain(error));
            }
        }
        self.0.push(row);
    }
}

impl Row {
    /// By us, reading all of the file; and by rpm, where it is installed.
    fn verify(&mut self, keyring: &Keyring, rpmkeys: Option<&Rpmkeys>) {
        let listing = source::list(std::slice::from_ref(&self.path), Directories::Refuse);
        let Some(entry) = listing.groups.first().and_then(|group| group.first()) else {
            return;
        };
        match verify::verify(0, entry, None, keyring).outcome {
            Ok(Some(verification)) => {
                let places: Vec<&str> =
                    verification.signatures.iter().map(|signature| signature.place.as_str()).collect();
                self.what = places.join(", ");
                self.verified = verification.state() == State::Valid;
                verification.state().name().clone_into(&mut self.verified_by);
            }
            Ok(None) => "not a package".clone_into(&mut self.verified_by),
            Err(error) => self.verified_by = Failure::chain(&error),
        }
        if let Some(rpmkeys) = rpmkeys {
            let (accepted, text) = rpmkeys.check(&self.path);
            self.verified &= accepted;
            self.verified_by = format!("{}; rpmkeys: {text}", self.verified_by);
        }
    }
}

/// rpm's own judgement, with a database that holds only the demo key.
struct Rpmkeys {
    dbpath: PathBuf,
}

impl Rpmkeys {
    fn with_key(folder: &Path, armored: &Path) -> Option<Self> {
        let dbpath = folder.join("rpmdb");
        let imported = Command::new("rpmkeys")
            .arg("--dbpath")
            .arg(&dbpath)
            .arg("--import")
            .arg(armored)
            .output()
            .ok()?;
        imported.status.success().then_some(Self { dbpath })
    }

    /// rpm before 6 does not look into version 6 packages' signatures and says only "digests OK".
    fn check(&self, file: &Path) -> (bool, String) {
        let Ok(output) =
            Command::new("rpmkeys").arg("--dbpath").arg(&self.dbpath).arg("-K").arg(file).output()
        else {
            return (false, "cannot be run".to_owned());
        };
        let text = String::from_utf8_lossy(&output.stdout);
        let verdict = text.trim().rsplit(": ").next().unwrap_or_default().to_owned();
        (output.status.success(), verdict)
    }
}

fn print(rows: &[Row], key: &Key, rpmkeys: bool, elapsed: std::time::Duration) {
    let cells: Vec<Vec<String>> = rows
        .iter()
        .map(|row| {
            vec![
                terminal::safe(&row.file),
                row.format.clone(),
                terminal::safe(&row.what),
                row.size.to_string(),
                row.sent_bytes.to_string(),
                row.written_bytes.to_string(),
                format!("{} ms", row.time_ms),
                row.verified_by.clone(),
            ]
        })
        .collect();
    terminal::out("");
    terminal::table(&["FILE", "FORMAT", "SIGNED", "SIZE", "SENT", "WRITTEN", "TIME", "VERIFIED"], &cells);
    let signed = rows.iter().filter(|row| row.signed).count();
    let verified = rows.iter().filter(|row| row.verified).count();
    terminal::out("");
    terminal::out(&format!(
        "{signed} of {} signed by key {} {} in {} ms, {verified} verified{}.",
        rows.len(),
        key.name,
        key.fingerprint,
        elapsed.as_millis(),
        if rpmkeys { "" } else { " (rpmkeys is not installed)" },
    ));
    terminal::out("SIZE, SENT and WRITTEN in bytes: SENT is what left this process for the key holder.");
}

fn next_steps(folder: &Path) {
    terminal::out("");
    terminal::out(&format!(
        "The packages are in {}. With files of your own:",
        folder.join("packages").display()
    ));
    terminal::out("    sealwright key create release --uid \"Your Name <you@example.org>\"");
    terminal::out("    sealwright sign --key release *.rpm");
    terminal::out(
        "    sealwright key export release > release.asc && sealwright verify --keyring release.asc *.rpm",
    );
}

fn cannot(what: &str, error: &IoError) -> Failure {
    Failure::failed(
        format!("cannot {what}: {error}"),
        "Check the permissions and the free space of the temporary directory.",
    )
}
