//! Where this processor keeps the number, the arguments and the result of a system call.

use nix::sys::ptrace;
use nix::unistd::Pid;

/// The registers of a stopped thread.
#[derive(Clone, Copy)]
pub(super) struct Registers(nix::libc::user_regs_struct);

impl Registers {
    /// `None` if the thread is gone: killed while it was stopped.
    pub(super) fn of(tid: Pid) -> Option<Self> {
        ptrace::getregs(tid).ok().map(Self)
    }

    pub(super) fn write(self, tid: Pid) {
        // Gone meanwhile: nothing to do.
        let _ = ptrace::setregs(tid, self.0);
    }
}

#[cfg(target_arch = "x86_64")]
impl Registers {
    pub(super) fn number(&self) -> i64 {
        self.0.orig_rax.cast_signed()
    }

    pub(super) fn arguments(&self) -> [u64; 6] {
        [self.0.rdi, self.0.rsi, self.0.rdx, self.0.r10, self.0.r8, self.0.r9]
    }

    pub(super) fn with_first_two(mut self, first: u64, second: u64) -> Self {
        (self.0.rdi, self.0.rsi) = (first, second);
        self
    }

    pub(super) fn result(&self) -> i64 {
        self.0.rax.cast_signed()
    }

    pub(super) fn with_result(mut self, result: i64) -> Self {
        self.0.rax = result.cast_unsigned();
        self
    }
}

#[cfg(target_arch = "aarch64")]
impl Registers {
    pub(super) fn number(&self) -> i64 {
        self.0.regs[8].cast_signed()
    }

    pub(super) fn arguments(&self) -> [u64; 6] {
        std::array::from_fn(|position| self.0.regs[position])
    }

    pub(super) fn with_first_two(mut self, first: u64, second: u64) -> Self {
        (self.0.regs[0], self.0.regs[1]) = (first, second);
        self
    }

    pub(super) fn result(&self) -> i64 {
        self.0.regs[0].cast_signed()
    }

    pub(super) fn with_result(mut self, result: i64) -> Self {
        self.0.regs[0] = result.cast_unsigned();
        self
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!("the registers of this processor are not known here: crates/testkit/src/trace/registers.rs");
