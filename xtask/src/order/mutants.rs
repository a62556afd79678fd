//! The mutants: each drops one step of the way of a request, or swaps two; those of `mutants/laws.rs` take away what a
//! law of the registry stands on.

mod laws;

/// Which tests must catch it: the ones that are about it, so that it is not caught by chance.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Tests {
    /// The order as the kernel sees it, and the probes.
    Order,
    /// Front with a signer of the test.
    Front,
    /// Answers that lie.
    Lies,
    /// The signer, inside.
    Signer,
    /// The laws of the registry in front.
    Registry,
    /// The laws of the signer's cache.
    Cache,
}

impl Tests {
    pub(super) const ALL: [Self; 6] =
        [Self::Order, Self::Front, Self::Lies, Self::Signer, Self::Registry, Self::Cache];

    /// For cargo: package and target.
    pub(super) const fn target(self) -> &'static [&'static str] {
        match self {
            Self::Order => &["--package", "sealwright", "--test", "order"],
            Self::Front => &["--package", "sealwright-server", "--test", "front"],
            Self::Lies => &["--package", "sealwright", "--test", "lying_signer"],
            Self::Signer => &["--package", "sealwright-signer", "--lib", "--tests"],
            Self::Registry => &["--package", "sealwright-server", "--lib"],
            Self::Cache => &["--package", "sealwright-signer", "--lib"],
        }
    }

    /// Seconds for what is built, some ten times what it takes; for coreutils' `timeout`.
    pub(super) const fn seconds_max(self) -> &'static str {
        match self {
            Self::Order | Self::Front | Self::Lies | Self::Signer => "600",
            Self::Registry | Self::Cache => "60",
        }
    }

    /// Names of tests; none for all.
    pub(super) const fn filters(self) -> &'static [&'static str] {
        match self {
            Self::Order => &["law", "probes"],
            Self::Front | Self::Lies | Self::Signer => &[],
            Self::Registry => &["registry::laws"],
            Self::Cache => &["cache::laws"],
        }
    }
}

/// One change of product code.
pub(super) struct Mutant {
    /// What is dropped or swapped.
    pub(super) name: &'static str,
    pub(super) file: &'static str,
    /// It is in the file once.
    pub(super) text: &'static str,
    pub(super) replacement: &'static str,
    pub(super) tests: Tests,
}

const SIGN: &str = "crates/server/src/sign.rs";
const POLICY: &str = "crates/server/src/policy.rs";
const SIGNER: &str = "crates/signer/src/service.rs";
const GROUP: &str = "crates/client/src/apply/group.rs";
const JOURNAL: &str = "crates/client/src/apply/journal.rs";

/// All of them.
pub(super) fn all() -> impl Iterator<Item = &'static Mutant> {
    STEPS.iter().chain(laws::LAWS)
}

/// From the file to the file, in the order of docs/REQUEST.md.
const STEPS: &[Mutant] = &[
    Mutant {
        name: "the file is not locked",
        file: "crates/client/src/source/file.rs",
        text: "            source.lock()?;\n",
        replacement: "",
        tests: Tests::Order,
    },
    Mutant {
        name: "the key is resolved before the request is authorised",
        file: SIGN,
        text: "    let authorised = gone.unless(authorise(front, principal, group)).await?;\n    let key = gone.unless(front.registry.resolve(&authorised)).await?;\n",
        replacement: "    let key = gone.unless(front.registry.resolve(&authorised)).await?;\n    let authorised = gone.unless(authorise(front, principal, group)).await?;\n",
        tests: Tests::Front,
    },
    Mutant {
        name: "the intent is not recorded",
        file: SIGN,
        text: "    let (recorded, turn) = match course.storing(recorded).await? {\n        Intended::New(recorded, turn) => (recorded, turn),\n        Intended::Answered(outcomes) => return Ok(from_stored(outcomes)),\n    };\n    let logged = sign_and_log(front, group, (authorised, key), turn, &recorded, (gone, course)).await;",
        replacement: "    let logged = sign_and_log(front, group, (authorised, key), turn, (gone, course)).await;",
        tests: Tests::Front,
    },
    Mutant {
        name: "authorising forgets the usage",
        file: POLICY,
        text: ".find(|usage| !facts.usages.contains(usage))",
        replacement: ".find(|usage| !facts.usages.contains(usage) && facts.version == 0)",
        tests: Tests::Order,
    },
    Mutant {
        name: "the signer is asked while the intent is written",
        file: "crates/store/src/intents.rs",
        text: "        self.writer().submit(Record(intent)).await\n",
        replacement: "        let writer = self.writer().clone();\n        tokio::spawn(async move { writer.submit(Record(intent)).await.map(|_| ()) });\n        Ok(Recorded::New)\n",
        tests: Tests::Order,
    },
    Mutant {
        name: "commits of the store are not synced",
        file: "crates/store/src/open.rs",
        text: ".synchronous(SqliteSynchronous::Full)",
        replacement: ".synchronous(SqliteSynchronous::Normal)",
        tests: Tests::Order,
    },
    Mutant {
        name: "a signature gets no number",
        file: SIGNER,
        text: "        let operation = self.counts.count(key.key_id(), &packet)?;\n",
        replacement: "        let operation = sealwright_proto::convert::batch::Operation::default();\n",
        tests: Tests::Order,
    },
    Mutant {
        name: "the number is given before the signature is made",
        file: SIGNER,
        text: "        let Made { packet, digest, created, issuer } = sign_at(key, request, self.clock.unix_s())?;\n        let operation = self.counts.count(key.key_id(), &packet)?;\n",
        replacement: "        let operation = self.counts.count(key.key_id(), &packet)?;\n        let Made { packet, digest, created, issuer } = sign_at(key, request, self.clock.unix_s())?;\n",
        tests: Tests::Signer,
    },
    Mutant {
        name: "reserved numbers are not synced",
        file: "crates/signer/src/count.rs",
        text: "        ledger.sync()?;\n        Ok(Block",
        replacement: "        Ok(Block",
        tests: Tests::Order,
    },
    Mutant {
        name: "a sealed usage is not looked at",
        file: SIGNER,
        text: "    terms.allow(request.item.usage)?;\n",
        replacement: "",
        tests: Tests::Signer,
    },
    Mutant {
        name: "a bare digest is signed under the usage of content",
        file: SIGNER,
        text: "    if !request.item.is_of_one_kind() {\n",
        replacement: "    if request.item.ticket.is_some() {\n",
        tests: Tests::Signer,
    },
    Mutant {
        name: "an old generation is signed with",
        file: SIGNER,
        text: "        self.floors.pass(key.key_id, key.generation)?;\n",
        replacement: "",
        tests: Tests::Signer,
    },
    Mutant {
        name: "the signer packs what it did not verify",
        file: SIGNER,
        text: "    let checked = component.sign(&digest)?;\n    let packet = unsigned.pack(checked.raw()).map_err(internal)?;\n",
        replacement: "    let packet = unsigned.pack(digest.as_bytes()).map_err(internal)?;\n    component.sign(&digest)?;\n",
        tests: Tests::Signer,
    },
    Mutant {
        name: "the key is not looked at again with the entry",
        file: "crates/store/src/log.rs",
        text: "            KeyState::Disabled => return Some(Refusal::Disabled),\n",
        replacement: "            KeyState::Disabled => (),\n",
        tests: Tests::Order,
    },
    Mutant {
        name: "the answer is given without an entry",
        file: SIGN,
        text: "        let refusal = append(front, group, &authorised, &key, recorded, signed);\n        let refusal = match course.storing(refusal).await? {\n            Ok(logged) => return Ok(logged),",
        replacement: "        let refusal = append(front, group, &authorised, &key, recorded, signed.clone());\n        let refusal = match course.storing(refusal).await? {\n            Ok(_) => return Ok(signed),",
        tests: Tests::Front,
    },
    Mutant {
        name: "the answer is given while the entry is written",
        file: "crates/store/src/writer.rs",
        text: "        let committed = commit(&place, &mut batch).await;\n        if committed.is_ok() {\n            commits.fetch_add(1, Ordering::Relaxed);\n        }\n        reported.outcome(&committed, batch.len());\n        for job in batch.drain(..) {\n            job.answer(committed.clone());\n        }\n",
        replacement: "        let (pool, times) = &place;\n        let mut connection = match pool.acquire().await {\n            Ok(connection) => connection,\n            Err(_) => return,\n        };\n        let keys = std::collections::HashSet::new();\n        let mut transaction = match Transaction::begin(&mut connection, Way::Alone, &keys, times).await {\n            Ok(transaction) => transaction,\n            Err(_) => return,\n        };\n        let mut committed = Ok(());\n        for job in &mut batch {\n            committed = committed.and(job.run(&mut transaction).await);\n        }\n        commits.fetch_add(1, Ordering::Relaxed);\n        reported.outcome(&committed, batch.len());\n        for job in batch.drain(..) {\n            job.answer(committed.clone());\n        }\n        let _ = transaction.commit().await;\n",
        tests: Tests::Order,
    },
    Mutant {
        name: "the client believes the answer",
        file: "crates/client/src/sign/finish.rs",
        text: "            checked._proofs.push(self.check_one(item, &signature)?);\n",
        replacement: "            let _ = item;\n",
        tests: Tests::Lies,
    },
    Mutant {
        name: "a file is not compared again before it is written",
        file: GROUP,
        text: "        staged.source.check_unchanged()?;\n",
        replacement: "",
        tests: Tests::Order,
    },
    Mutant {
        name: "a file is not compared again before its signature lies beside it",
        file: "crates/client/src/apply/sidecar/commit.rs",
        text: "        self.source.check_unchanged()?;\n",
        replacement: "",
        tests: Tests::Order,
    },
    Mutant {
        name: "no space is taken for an undo record",
        file: "crates/client/src/apply/in_place.rs",
        text: "        staged.reserved = Some(state.reserve(undo::encoded_len_max(changed_bytes, path_bytes))?);\n",
        replacement: "        let _ = (state, undo::encoded_len_max(changed_bytes, path_bytes));\n",
        tests: Tests::Order,
    },
    Mutant {
        name: "a temporary takes the name before it is synced",
        file: GROUP,
        text: "    sync(&mut members, Member::temporary, Member::sync_temporary);\n    let journal = record(&mut members);\n    each(&mut members, Member::switch);\n",
        replacement: "    let journal = record(&mut members);\n    each(&mut members, Member::switch);\n    sync(&mut members, Member::temporary, Member::sync_temporary);\n",
        tests: Tests::Order,
    },
    Mutant {
        name: "a temporary is not synced",
        file: GROUP,
        text: "    sync(&mut members, Member::temporary, Member::sync_temporary);\n",
        replacement: "    let _ = (Member::temporary, Member::sync_temporary);\n",
        tests: Tests::Order,
    },
    Mutant {
        name: "the undo record is written after the file",
        file: GROUP,
        text: "    let journal = record(&mut members);\n    each(&mut members, Member::switch);\n",
        replacement: "    each(&mut members, Member::switch);\n    let journal = record(&mut members);\n",
        tests: Tests::Order,
    },
    Mutant {
        name: "the undo record is not synced",
        file: JOURNAL,
        text: "            rustix::fs::fsync(&*file).map_err(|error| write(error.into()))?;\n",
        replacement: "",
        tests: Tests::Order,
    },
    Mutant {
        name: "the name of the undo record is not synced",
        file: JOURNAL,
        text: "        journal.name = name;\n        rustix::fs::fsync(&self.fd).map_err(|error| write(error.into()))?;\n",
        replacement: "        journal.name = name;\n",
        tests: Tests::Order,
    },
    Mutant {
        name: "a file written in place is not synced before its record goes",
        file: GROUP,
        text: "    sync(&mut members, Member::written_in_place, Member::sync_in_place);\n",
        replacement: "    let _ = (Member::written_in_place, Member::sync_in_place);\n",
        tests: Tests::Order,
    },
    Mutant {
        name: "the directory is not synced",
        file: GROUP,
        text: "    sync_directories(&mut members);\n    for",
        replacement: "    let _ = sync_directories;\n    for",
        tests: Tests::Order,
    },
    Mutant {
        name: "what was written is not read back",
        file: GROUP,
        text: "    each(&mut members, Member::read_back);\n",
        replacement: "    let _ = Member::read_back;\n",
        tests: Tests::Order,
    },
    Mutant {
        name: "the undo record goes before the file is read back",
        file: GROUP,
        text: "    each(&mut members, Member::read_back);\n    if let Some(journal) = journal {\n        settle(journal, &mut members);\n    }\n",
        replacement: "    if let Some(journal) = journal {\n        settle(journal, &mut members);\n    }\n    each(&mut members, Member::read_back);\n",
        tests: Tests::Order,
    },
];

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_text_of_every_mutant_is_in_its_file_once_and_is_changed() {
        for mutant in all() {
            let text = fs::read_to_string(crate::process::root().join(mutant.file)).unwrap();
            assert_eq!(text.matches(mutant.text).count(), 1, "{}", mutant.name);
            assert_ne!(mutant.text, mutant.replacement, "{}", mutant.name);
        }
    }
}
