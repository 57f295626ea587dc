//! The tile registers: whether this process may use them, and who has configured those of a thread.

use std::arch::asm;
use std::arch::x86_64::{__cpuid, __cpuid_count};
use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::OnceLock;

use crate::backend::cpu::avx512;

/// True if this CPU has the instructions and the operating system lets this process use the tile registers.
pub(in crate::backend::cpu) fn available() -> bool {
    static AVAILABLE: OnceLock<bool> = OnceLock::new();
    *AVAILABLE.get_or_init(|| avx512::available() && has_bf16_tiles() && permitted())
}

fn has_bf16_tiles() -> bool {
    const BF16_AND_TILE: u32 = 1 << 22 | 1 << 24;
    __cpuid(0).eax >= 7 && __cpuid_count(7, 0).edx & BF16_AND_TILE == BF16_AND_TILE
}

/// Asks Linux for the tile registers (a process must, since they make every signal frame 8 KiB larger).
#[cfg(target_os = "linux")]
fn permitted() -> bool {
    const ARCH_PRCTL: u64 = 158;
    const REQUEST_PERMISSION: u64 = 0x1023;
    const TILE_DATA: u64 = 18;
    let result: u64;
    // SAFETY: the call changes nothing but the permission; the registers a system call overwrites are named.
    unsafe {
        asm!("syscall", inlateout("rax") ARCH_PRCTL => result, in("rdi") REQUEST_PERMISSION, in("rsi") TILE_DATA,
            lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    result == 0
}

#[cfg(not(target_os = "linux"))]
fn permitted() -> bool {
    false
}

/// How many owners a thread's registers have: the first one sets them up, the last one to leave releases them.
pub(super) struct Owners(Cell<usize>);

impl Owners {
    pub(super) const fn new() -> Self {
        Self(Cell::new(0))
    }

    pub(super) fn enter(&self, set_up: impl FnOnce()) {
        if self.0.get() == 0 {
            set_up();
        }
        self.0.set(self.0.get() + 1);
    }

    pub(super) fn leave(&self, release: impl FnOnce()) {
        self.0.set(self.0.get() - 1);
        if self.0.get() == 0 {
            release();
        }
    }
}

thread_local!(static OWNERS: Owners = const { Owners::new() });

/// Tile registers of this thread, configured as eight full tiles for as long as one of these lives. It stays on its
/// thread.
pub(in crate::backend::cpu) struct Registers(PhantomData<*const ()>);

impl Registers {
    pub(in crate::backend::cpu) fn take() -> Self {
        assert!(available());
        OWNERS.with(|owners| owners.enter(configure));
        Self(PhantomData)
    }
}

impl Drop for Registers {
    fn drop(&mut self) {
        // SAFETY: the last owner leaves, and nothing else in the process uses the tile registers.
        let release = || unsafe { asm!("tilerelease", options(nostack, nomem)) };
        OWNERS.with(|owners| owners.leave(release));
    }
}

fn configure() {
    // Palette 1; bytes 16.. hold the row lengths as u16, bytes 48.. the numbers of rows.
    let mut shape = [0_u8; 64];
    shape[0] = 1;
    for tile in 0..8 {
        shape[16 + 2 * tile] = 64;
        shape[48 + tile] = 16;
    }
    // SAFETY: `take` checked that the instructions are available, and the configuration is valid.
    unsafe { asm!("ldtilecfg [{}]", in(reg) &raw const shape, options(nostack, readonly)) };
}
