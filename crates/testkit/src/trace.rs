//! Runs a program and its children as a debugger does: each system call that can be an effect is seen before and
//! after the kernel does it, with its bytes, and can be made to fail, delayed, or be the moment of a kill. One exact
//! call is hit whichever thread makes it; counting calls from outside (`strace --inject`) counts each thread apart.
//!
//! Nothing is needed in the program for it. What it did is judged by [`crate::effects`].

mod call;
mod registers;

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::libc;
use nix::sys::ptrace::{self, Options};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use crate::sealwright::Ran;
use call::{Begun, Process};
use registers::Registers;

pub use call::{Actor, Call};

/// How long a run may take: a program that hangs after a fault fails the test.
const RUN_MAX: Duration = Duration::from_secs(120);

/// Before the kernel does it, or after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// The kernel has not done it; bytes to be written are known.
    Before,
    /// The kernel has done it; its result and bytes that were read are known.
    After,
}

/// What becomes of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// It goes on.
    Go,
    /// It fails with this error number; before the kernel does it, it is not done.
    Fail(i32),
    /// This process is killed (SIGKILL).
    Kill(Actor),
    /// The thread that makes it is held for so long; all others go on.
    Hold(Duration),
}

/// What a run did and gave.
#[derive(Debug)]
pub struct Traced {
    /// Calls that can be effects, in the order in which they began.
    pub calls: Vec<Call>,
    /// Exit status and outputs.
    pub ran: Ran,
}

/// Runs a command to its end, with nothing on standard input. `decide` is asked at each call, before and after.
///
/// # Panics
/// This machine does not let a process trace its own child, or the program does not end in time.
#[expect(clippy::zombie_processes, reason = "the tracer waits for it, with its children")]
pub fn run(command: &Command, decide: &mut dyn FnMut(&Call, Moment) -> Act) -> Traced {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let [out, err] = ["out", "err"].map(|name| folder.path().join(name));
    let mut child = waiting(command)
        .stdin(Stdio::piped())
        .stdout(File::create(&out).expect("a temporary file"))
        .stderr(File::create(&err).expect("a temporary file"))
        .spawn()
        .expect("a shell");
    let root = Pid::from_raw(child.id().cast_signed());
    let options = Options::PTRACE_O_TRACESYSGOOD
        | Options::PTRACE_O_TRACECLONE
        | Options::PTRACE_O_TRACEFORK
        | Options::PTRACE_O_TRACEVFORK
        | Options::PTRACE_O_TRACEEXEC
        | Options::PTRACE_O_EXITKILL;
    if let Err(error) = ptrace::seize(root, options) {
        let _ = child.kill();
        panic!(
            "a process may not trace its own child here ({error}). The order of effects cannot be tested without: in a \
             container, allow the system call ptrace (docker run --cap-add SYS_PTRACE)"
        );
    }
    let over = watch_over(root);
    // It waits for this line, then becomes the program.
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(b"\n").expect("a shell that reads");
    drop(stdin);
    let mut tracer = Tracer::new(root, decide);
    let status = tracer.follow();
    assert!(over.send(()).is_ok(), "the program did not end in {RUN_MAX:?}");
    let read = |path| fs::read(path).expect("an output");
    let output = Output { status, stdout: read(out), stderr: read(err) };
    let mut calls = tracer.calls;
    calls.sort_by_key(|call| call.begun);
    Traced { calls, ran: Ran::from(output) }
}

/// A shell with the same surroundings that waits for a line before it becomes the program.
fn waiting(command: &Command) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", "read -r _ && exec \"$0\" \"$@\" </dev/null"]);
    shell.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    if let Some(folder) = command.get_current_dir() {
        shell.current_dir(folder);
    }
    shell
}

/// Kills it when its time is over, unless it is told first.
fn watch_over(root: Pid) -> Sender<()> {
    let (over, is_over) = channel();
    std::thread::spawn(move || {
        if is_over.recv_timeout(RUN_MAX).is_err() {
            let _ = kill(root, Signal::SIGKILL);
        }
    });
    over
}

struct Tracer<'a> {
    root: Pid,
    decide: &'a mut dyn FnMut(&Call, Moment) -> Act,
    calls: Vec<Call>,
    /// By id of the process.
    processes: HashMap<Pid, Process>,
    threads: HashMap<Pid, Thread>,
    /// Until when, and who.
    held: Vec<(Instant, Pid)>,
    now: usize,
}

/// Between two stops.
struct Thread {
    process: Pid,
    /// Whether the kernel works on a call of it.
    inside: bool,
    begun: Option<Begun>,
    /// It was spoilt, to fail with this.
    fails: Option<i32>,
}

impl<'a> Tracer<'a> {
    fn new(root: Pid, decide: &'a mut dyn FnMut(&Call, Moment) -> Act) -> Self {
        let (calls, held) = (Vec::new(), Vec::new());
        Self { root, decide, calls, processes: HashMap::new(), threads: HashMap::new(), held, now: 0 }
    }

    /// Until no process is left.
    fn follow(&mut self) -> ExitStatus {
        let mut status = None;
        loop {
            // Only of this thread: tests beside this one have children of their own.
            let mut flags = WaitPidFlag::__WALL | WaitPidFlag::__WNOTHREAD;
            if !self.held.is_empty() {
                flags |= WaitPidFlag::WNOHANG;
            }
            match waitpid(Pid::from_raw(-1), Some(flags)) {
                Err(Errno::ECHILD) => break,
                Err(Errno::EINTR) => {}
                Err(error) => panic!("waiting for a traced process: {error}"),
                Ok(WaitStatus::StillAlive) => self.release(),
                Ok(WaitStatus::Exited(pid, code)) => self.gone(pid, code << 8, &mut status),
                Ok(WaitStatus::Signaled(pid, signal, _)) => self.gone(pid, signal as i32, &mut status),
                Ok(WaitStatus::PtraceSyscall(tid)) => {
                    if self.stopped(tid) {
                        resume(tid, None);
                    }
                }
                Ok(WaitStatus::PtraceEvent(tid, _, event)) => {
                    if event == libc::PTRACE_EVENT_EXEC {
                        self.became(tid);
                    }
                    resume(tid, None);
                }
                Ok(WaitStatus::Stopped(tid, signal)) => resume(tid, Some(signal)),
                Ok(WaitStatus::Continued(_)) => {}
            }
        }
        status.expect("the program was waited for")
    }

    fn gone(&mut self, pid: Pid, raw: i32, status: &mut Option<ExitStatus>) {
        // What it was doing was begun and never over.
        if let Some(Thread { begun: Some(begun), .. }) = self.threads.remove(&pid) {
            self.calls.push(begun.call);
        }
        // Its number can be given to another process from now on.
        self.processes.remove(&pid);
        if pid == self.root {
            *status = Some(ExitStatus::from_raw(raw));
        }
    }

    fn release(&mut self) {
        let now = Instant::now();
        for (_, tid) in self.held.extract_if(.., |(until, _)| *until <= now) {
            resume(tid, None);
        }
        std::thread::sleep(Duration::from_millis(1));
    }

    /// A process became another program: its memory is new.
    fn became(&mut self, tid: Pid) {
        let process = self.process_of(tid);
        let actor = if process == self.root { Actor::Front } else { Actor::Signer };
        self.processes.insert(process, Process::new(actor, process));
        // The stop lies inside of the call.
        self.threads.insert(tid, Thread { process, inside: true, begun: None, fails: None });
    }

    fn process_of(&self, tid: Pid) -> Pid {
        if let Some(thread) = self.threads.get(&tid) {
            return thread.process;
        }
        let status = fs::read_to_string(format!("/proc/{tid}/status")).unwrap_or_default();
        let id = status.lines().find_map(|line| line.strip_prefix("Tgid:")?.trim().parse().ok());
        Pid::from_raw(id.unwrap_or(tid.as_raw()))
    }

    /// At a call, before or after; whether it goes on at once.
    fn stopped(&mut self, tid: Pid) -> bool {
        let Some(registers) = Registers::of(tid) else { return true };
        let process = self.process_of(tid);
        self.now += 1;
        let known = self.processes.entry(process).or_insert_with(|| {
            Process::new(if process == self.root { Actor::Front } else { Actor::Signer }, process)
        });
        let fresh = || Thread { process, inside: false, begun: None, fails: None };
        let thread = self.threads.entry(tid).or_insert_with(fresh);
        thread.inside = !thread.inside;
        let act = if thread.inside {
            let Some(begun) = known.begin(tid, registers, self.now) else { return true };
            let act = (self.decide)(&begun.call, Moment::Before);
            if let Act::Fail(errno) = act {
                // No descriptor and no name has these values: the kernel refuses, and does nothing.
                let second = if begun.shape.has_name() { 0 } else { registers.arguments()[1] };
                registers.with_first_two(u64::MAX, second).write(tid);
                thread.fails = Some(errno);
            }
            thread.begun = Some(begun);
            act
        } else {
            let Some(begun) = thread.begun.take() else { return true };
            let mut result = registers.result();
            let [first, second, ..] = begun.registers.arguments();
            if let Some(errno) = thread.fails.take() {
                result = -i64::from(errno);
                // Programs count on their registers: the result may lie in the first of them.
                registers.with_first_two(first, second).with_result(result).write(tid);
            }
            let mut call = known.end(begun, result, self.now);
            let act = (self.decide)(&call, Moment::After);
            if let Act::Fail(errno) = act {
                call.result = -i64::from(errno);
                registers.with_result(call.result).write(tid);
            }
            self.calls.push(call);
            act
        };
        self.carry_out(tid, act)
    }

    fn carry_out(&mut self, tid: Pid, act: Act) -> bool {
        match act {
            Act::Go | Act::Fail(_) => true,
            Act::Kill(actor) => {
                let of_actor = |(_, process): &(&Pid, &Process)| process.actor == actor;
                for (pid, _) in self.processes.iter().filter(of_actor) {
                    let _ = kill(*pid, Signal::SIGKILL);
                }
                true
            }
            Act::Hold(time) => {
                self.held.push((Instant::now() + time, tid));
                false
            }
        }
    }
}

fn resume(tid: Pid, signal: Option<Signal>) {
    // Gone while it was stopped: it was killed, and will be waited for.
    let _ = ptrace::syscall(tid, signal);
}
