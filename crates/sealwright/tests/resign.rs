//! Campaigns, with the real program on trees of real packages: what is signed, what is left alone, what is said; stops,
//! kills and failing disks; the second tree; the way back. rpm and the log are the judges.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "tests"
)]

#[path = "resign/choice.rs"]
mod choice;
#[allow(dead_code, reason = "each test target uses its part")]
#[path = "splice/disk.rs"]
mod disk;
#[path = "resign/ending.rs"]
mod ending;
#[path = "resign/farm.rs"]
mod farm;
#[path = "resign/faults.rs"]
mod faults;
#[path = "resign/kill.rs"]
mod kill;
#[path = "resign/second.rs"]
mod second;
#[path = "resign/way_back.rs"]
mod way_back;
