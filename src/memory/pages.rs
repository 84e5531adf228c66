//! Pages of this process on Windows; on other systems `memmap2` does this.

use std::io;

use windows_sys::Win32::Foundation::ERROR_WORKING_SET_QUOTA;
use windows_sys::Win32::System::Memory::{
    PrefetchVirtualMemory, VirtualLock, VirtualUnlock, WIN32_MEMORY_RANGE_ENTRY,
};
use windows_sys::Win32::System::Threading::{
    GetCurrentProcess, GetProcessWorkingSetSize, SetProcessWorkingSetSize,
};

/// Bytes of the least working set that a process cannot lock, since Windows uses some itself.
const SPARE_BYTES: usize = 1 << 20;

/// Keeps the pages of `bytes` in memory until they are unmapped. A process may lock no more than its least working set, which
/// begins with about a megabyte; so this raises it by as many bytes.
///
/// # Errors
/// The system's.
pub fn lock(bytes: &[u8]) -> io::Result<()> {
    if bytes.is_empty() || try_lock(bytes) {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    if error.raw_os_error() != Some(ERROR_WORKING_SET_QUOTA as i32) {
        return Err(error);
    }
    grow_working_set(bytes.len().saturating_add(SPARE_BYTES))?;
    if try_lock(bytes) { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn try_lock(bytes: &[u8]) -> bool {
    // SAFETY: memory of this process, which is only kept where it is.
    unsafe { VirtualLock(bytes.as_ptr().cast(), bytes.len()) != 0 }
}

fn grow_working_set(by: usize) -> io::Result<()> {
    // SAFETY: no condition.
    let process = unsafe { GetCurrentProcess() };
    let (mut least, mut most) = (0, 0);
    // SAFETY: the calling process, and two numbers that are written.
    if unsafe { GetProcessWorkingSetSize(process, &mut least, &mut most) } == 0 {
        return Err(io::Error::last_os_error());
    }
    let (least, most) = (least.saturating_add(by), most.saturating_add(by));
    // SAFETY: the calling process.
    match unsafe { SetProcessWorkingSetSize(process, least, most) } {
        0 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Asks the system to begin fetching pages of a mapped file. It is a hint.
pub fn will_need(bytes: &[u8]) {
    let range = WIN32_MEMORY_RANGE_ENTRY {
        VirtualAddress: bytes.as_ptr().cast_mut().cast(),
        NumberOfBytes: bytes.len(),
    };
    // SAFETY: no condition.
    let process = unsafe { GetCurrentProcess() };
    // SAFETY: one range of mapped memory, of which nothing changes.
    let _ = unsafe { PrefetchVirtualMemory(process, 1, &range, 0) };
}

/// Takes the pages of `bytes`, which belong to a mapped file and are unchanged, out of the working set. Bytes stay readable.
/// Locked pages lose their lock and stay.
pub fn release(bytes: &[u8]) {
    // SAFETY: memory of this process. For pages that are not locked the call says so and gives them back.
    let _ = unsafe { VirtualUnlock(bytes.as_ptr().cast(), bytes.len()) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_the_first_working_set_can_be_locked() {
        let map = memmap2::MmapMut::map_anon(24 << 20).expect("memory");
        lock(&map).expect("locked");
        assert!(lock(&[]).is_ok());
        release(&map);
        assert!(map.iter().all(|&byte| byte == 0));
        // Addresses without memory.
        let pointer = std::ptr::without_provenance::<u8>(0x1000);
        // SAFETY: never read by this process.
        let nowhere = unsafe { std::slice::from_raw_parts(pointer, 16) };
        assert!(lock(nowhere).is_err());
    }
}
