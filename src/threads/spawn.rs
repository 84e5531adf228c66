//! Starting threads. The standard library's threads end the process when memory runs out while one starts: they register a
//! destructor with the C library, which aborts without memory for it, and they panic without memory for a signal stack. These
//! threads do neither: a thread that cannot start is an error.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use crate::error::{Error, Result};

/// What a thread does.
type Work = Box<dyn FnOnce() + Send>;

/// The state that a thread and its owner share.
#[derive(Default)]
struct Shared {
    /// Whether it has begun its work (or had no memory for that), once that is known.
    has_begun: Mutex<Option<bool>>,
    changed: Condvar,
    has_ended: AtomicBool,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

impl Shared {
    /// Informs the owner. It touches no thread-local variable.
    fn tell(&self, has_begun: bool) {
        *self.has_begun.lock().unwrap_or_else(PoisonError::into_inner) = Some(has_begun);
        self.changed.notify_all();
    }

    /// Does the work of the thread.
    fn run(&self, work: Work) {
        super::float_env::take_ours();
        self.tell(true);
        if let Err(panic) = catch_unwind(AssertUnwindSafe(work)) {
            *self.panic.lock().unwrap_or_else(PoisonError::into_inner) = Some(panic);
        }
        self.has_ended.store(true, SeqCst);
    }
}

/// A thread that is to be joined.
pub struct Thread {
    id: system::Id,
    shared: Arc<Shared>,
}

impl Thread {
    /// Starts a thread called `name` that does `work`.
    ///
    /// # Errors
    /// Those of the system.
    pub fn start(name: &str, work: impl FnOnce() + Send + 'static) -> std::io::Result<Thread> {
        Thread::start_boxed(name, Box::new(work))
    }

    fn start_boxed(name: &str, work: Work) -> std::io::Result<Thread> {
        let shared = Arc::<Shared>::default();
        let id = system::start(name, Arc::clone(&shared), work)?;
        Ok(Thread { id, shared })
    }

    /// Waits until the thread has begun its work.
    ///
    /// # Errors
    /// `NoMemory` when it had no memory to begin.
    pub fn begun(&self) -> Result<()> {
        let state = self.shared.has_begun.lock().unwrap_or_else(PoisonError::into_inner);
        let state = self.shared.changed.wait_while(state, |state| state.is_none());
        match *state.unwrap_or_else(PoisonError::into_inner) {
            Some(false) => Err(Error::NoMemory("a thread had no memory to begin its work".into())),
            _ => Ok(()),
        }
    }

    /// Whether the thread's work is done.
    pub fn has_ended(&self) -> bool {
        self.shared.has_ended.load(SeqCst)
    }

    /// Waits for the thread's end. `Err` with the payload of its panic.
    pub fn join(self) -> std::thread::Result<()> {
        system::join(self.id);
        match self.shared.panic.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(panic) => Err(panic),
            None => Ok(()),
        }
    }
}

/// Runs `work` on a thread of its own, with a stack of two megabytes, and waits for it: for work that may need more stack than
/// callers have. A panic is raised again here. Where there are no threads it runs on the caller's.
///
/// # Errors
/// `NoMemory` when no thread can be started.
pub fn apart<T: Send>(work: impl FnOnce() -> T + Send) -> Result<T> {
    if super::alone() || cfg!(miri) {
        return Ok(work());
    }
    let mut result = None;
    let into = &mut result;
    let job: Box<dyn FnOnce() + Send + '_> = Box::new(move || *into = Some(work()));
    // SAFETY: only the lifetime changes. The thread with the job is joined below before anything that it borrows is dropped; if
    // none is started, the job is dropped by then.
    let job = unsafe { std::mem::transmute::<Box<dyn FnOnce() + Send + '_>, Work>(job) };
    let no_memory =
        |why: &str| Error::NoMemory(format!("a thread for a deep stack cannot be started: {why}"));
    let thread = Thread::start_boxed("ember-apart", job).map_err(|e| no_memory(&e.to_string()))?;
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
    result.ok_or_else(|| no_memory("it had no memory to begin its work"))
}

#[cfg(all(unix, not(miri)))]
mod system {
    use std::ffi::{CString, c_void};
    use std::mem::MaybeUninit;
    use std::{io, ptr};

    use super::{Arc, SeqCst, Shared, Work};

    /// A thread of the C library.
    pub(super) struct Id(libc::pthread_t);

    // SAFETY: any thread may join another one. musl's thread id is a pointer, which only the C library follows.
    unsafe impl Send for Id {}
    // SAFETY: nothing can be done with a shared reference.
    unsafe impl Sync for Id {}

    /// As many as the standard library's threads have.
    const STACK_BYTES: usize = 2 << 20;
    /// Memory that the C library may need for a thread's variables when they are first used, and aborts without: those of a
    /// library that was opened at run time.
    const PROBE_BYTES: usize = 64 << 10;

    struct Task {
        work: Work,
        shared: Arc<Shared>,
        name: Option<CString>,
    }

    extern "C" fn main(task: *mut c_void) -> *mut c_void {
        // SAFETY: `start` made it from a box, for this thread alone.
        let task = unsafe { Box::from_raw(task.cast::<Task>()) };
        if !has_memory() {
            let Task { work, shared, .. } = *task;
            drop(work);
            shared.has_ended.store(true, SeqCst);
            shared.tell(false);
            return ptr::null_mut();
        }
        let Task { work, shared, name } = *task;
        name.as_deref().into_iter().for_each(set_name);
        shared.run(work);
        ptr::null_mut()
    }

    /// Whether the C library has some memory for this thread. The freed block stays in its cache: the next small block comes from
    /// it.
    fn has_memory() -> bool {
        // SAFETY: no condition.
        let block = unsafe { libc::malloc(PROBE_BYTES) };
        // SAFETY: NULL, or a block of malloc's that nobody uses.
        unsafe { libc::free(block) };
        !block.is_null()
    }

    fn set_name(name: &std::ffi::CStr) {
        #[cfg(any(target_os = "linux", target_os = "android"))]
        {
            // SAFETY: no condition.
            let this = unsafe { libc::pthread_self() };
            // SAFETY: this thread, and a text that ends with NUL. A name that is too long is an error without consequence.
            unsafe { libc::pthread_setname_np(this, name.as_ptr()) };
        }
        #[cfg(any(target_os = "macos", target_os = "ios"))]
        // SAFETY: a text that ends with NUL.
        unsafe {
            libc::pthread_setname_np(name.as_ptr())
        };
        #[cfg(not(any(target_os = "linux", target_os = "android", target_os = "macos", target_os = "ios")))]
        let _ = name;
    }

    pub(super) fn start(name: &str, shared: Arc<Shared>, work: Work) -> io::Result<Id> {
        let failed = |code: i32| match code {
            0 => Ok(()),
            code => Err(io::Error::from_raw_os_error(code)),
        };
        let mut attributes = MaybeUninit::<libc::pthread_attr_t>::uninit();
        // SAFETY: space for attributes.
        failed(unsafe { libc::pthread_attr_init(attributes.as_mut_ptr()) })?;
        // SAFETY: `pthread_attr_init` wrote them.
        failed(unsafe { libc::pthread_attr_setstacksize(attributes.as_mut_ptr(), STACK_BYTES) })?;
        let task = Box::into_raw(Box::new(Task { work, shared, name: CString::new(name).ok() }));
        let mut id = MaybeUninit::<libc::pthread_t>::uninit();
        // SAFETY: attributes that were made above, and a function that takes over the task.
        let code = unsafe {
            libc::pthread_create(id.as_mut_ptr(), attributes.as_ptr(), main, task.cast::<c_void>())
        };
        // SAFETY: they were made above and are not used any more.
        unsafe { libc::pthread_attr_destroy(attributes.as_mut_ptr()) };
        match code {
            // SAFETY: `pthread_create` wrote it.
            0 => Ok(Id(unsafe { id.assume_init() })),
            code => {
                // SAFETY: no thread was made that would take it over.
                drop(unsafe { Box::from_raw(task) });
                Err(io::Error::from_raw_os_error(code))
            }
        }
    }

    pub(super) fn join(id: Id) {
        // SAFETY: a thread that was started here and is joined once, since that takes its owner.
        unsafe { libc::pthread_join(id.0, ptr::null_mut()) };
    }
}

#[cfg(not(all(unix, not(miri))))]
mod system {
    use std::io;

    use super::{Arc, Shared, Work};

    pub(super) type Id = std::thread::JoinHandle<()>;

    pub(super) fn start(name: &str, shared: Arc<Shared>, work: Work) -> io::Result<Id> {
        std::thread::Builder::new().name(name.to_owned()).spawn(move || shared.run(work))
    }

    pub(super) fn join(id: Id) {
        // `Shared::run` catches panics.
        let _ = id.join();
    }
}

#[cfg(all(test, panic = "unwind", not(target_family = "wasm")))]
mod tests {
    use super::*;

    #[test]
    fn a_thread_works_ends_and_gives_its_panic() {
        let (tell, hear) = std::sync::mpsc::channel();
        let thread = Thread::start("ember-test", move || {
            let name = std::fs::read_to_string("/proc/thread-self/comm").unwrap_or_default();
            tell.send(name).expect("somebody hears");
        });
        let thread = thread.expect("a thread");
        assert_eq!(thread.begun(), Ok(()));
        let name = hear.recv().expect("its name");
        assert!(!cfg!(all(target_os = "linux", not(miri))) || name.trim() == "ember-test", "{name}");
        assert!(thread.join().is_ok());
        let text = String::from("borrowed");
        assert_eq!(apart(|| text.len()), Ok(8));
        let panic = catch_unwind(|| apart(|| -> usize { panic!("apart") })).expect_err("it panicked");
        assert_eq!(panic.downcast_ref::<&str>(), Some(&"apart"));
        let thread = Thread::start("ember-test", || panic!("inside")).expect("a thread");
        let panic = thread.join().expect_err("it panicked");
        assert_eq!(panic.downcast_ref::<&str>(), Some(&"inside"));
    }
}
