//! Instruction sets of x86-64 beyond its baseline.

pub mod amx;
#[macro_use]
pub mod avx2;
pub mod avx512;
pub mod avxvnni;
mod wide;

use std::arch::x86_64::{__cpuid, __cpuid_count, _mm_prefetch};
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// Prefetches the cache line at `address`, if there is memory, into the cache of `HINT`.
#[inline(always)]
fn fetch_line<const HINT: i32>(address: *const i8) {
    // SAFETY: every x86-64 has the instruction, and it accesses no memory.
    unsafe { _mm_prefetch::<HINT>(address) };
}

/// Whether the first-level cache holds the lines under way between memory and a single vector's products
/// ([`avx2::group::Parts::prefetch`]) beside the products' own data: 48 KB do, in processors of AMD. Others were not measured and
/// count as having 32 KB.
fn holds_stretch() -> bool {
    // Each early caller finds out by itself: a lock could be held in a process that is forked.
    static HOLDS: AtomicU8 = AtomicU8::new(UNKNOWN);
    const UNKNOWN: u8 = u8::MAX;
    match HOLDS.load(Relaxed) {
        UNKNOWN => {
            let holds = first_cache_of_amd().is_some_and(|bytes| bytes >= 48 << 10);
            HOLDS.store(holds.into(), Relaxed);
            holds
        }
        holds => holds != 0,
    }
}

/// Bytes of the first-level data cache, where the processor reports them as AMD's do ("AMD64 Architecture Programmer's Manual",
/// volume 3, CPUID function 8000_001D).
fn first_cache_of_amd() -> Option<usize> {
    const CACHES: u32 = 0x8000_001D;
    if __cpuid(0x8000_0000).eax < CACHES {
        return None;
    }
    let mut caches = (0..8).map(|i| __cpuid_count(CACHES, i)).take_while(|cache| cache.eax & 0x1F != 0);
    let (data, of_level_1) = (1, 1 << 5);
    let cache = caches.find(|cache| cache.eax & 0xFF == data | of_level_1)?;
    let [line, partitions, ways] = [cache.ebx & 0xFFF, cache.ebx >> 12 & 0x3FF, cache.ebx >> 22];
    Some([line, partitions, ways, cache.ecx].iter().map(|n| *n as usize + 1).product())
}

#[cfg(test)]
mod tests {
    #[cfg(target_os = "linux")]
    #[test]
    fn the_first_cache_has_as_many_bytes_as_the_system_says() {
        let Some(bytes) = super::first_cache_of_amd() else { return };
        for i in 0..4 {
            let read = |what: &str| {
                let path = format!("/sys/devices/system/cpu/cpu0/cache/index{i}/{what}");
                std::fs::read_to_string(path).map(|text| text.trim().to_owned())
            };
            if let (Ok("1"), Ok("Data"), Ok(size)) =
                (read("level").as_deref(), read("type").as_deref(), read("size"))
            {
                assert_eq!(size, format!("{}K", bytes >> 10));
            }
        }
    }
}
