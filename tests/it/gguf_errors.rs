//! Every error of a GGUF file is a sentence that begins with the file's name and names the culprit.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::path::Path;

use ember::error::{Error, ember_status};
use ember::gguf::writer::Writer;
use ember::gguf::{Gguf, TensorType};

use ember_status::*;

/// A file put together field by field, so that any field can be wrong.
#[derive(Clone)]
struct Raw(Vec<u8>);

impl Raw {
    /// A version 3 header.
    fn new(n_tensors: u64, n_keys: u64) -> Raw {
        Raw(b"GGUF".to_vec()).u32(3).u64(n_tensors).u64(n_keys)
    }
    fn u8(mut self, v: u8) -> Raw {
        self.0.push(v);
        self
    }
    fn u32(mut self, v: u32) -> Raw {
        self.0.extend(v.to_le_bytes());
        self
    }
    fn u64(mut self, v: u64) -> Raw {
        self.0.extend(v.to_le_bytes());
        self
    }
    fn string(mut self, s: impl AsRef<[u8]>) -> Raw {
        self = self.u64(s.as_ref().len() as u64);
        self.0.extend(s.as_ref());
        self
    }
    /// A tensor directory entry.
    fn tensor(self, name: &str, dims: &[u64], ty: u32, offset: u64) -> Raw {
        let raw = self.string(name).u32(dims.len() as u32);
        dims.iter().fold(raw, |raw, &d| raw.u64(d)).u32(ty).u64(offset)
    }
    /// Padding to a multiple of 32, then `n` bytes of data.
    fn data(mut self, n: usize) -> Raw {
        self.0.resize(self.0.len().next_multiple_of(32) + n, 0);
        self
    }
    /// The error of this file. Its sentence begins with the file's name, which is taken off.
    #[track_caller]
    fn refused(&self, status: ember_status, sentence: &str) {
        assert_error(Gguf::from_bytes(&self.0, "bad.gguf"), "bad.gguf: ", status, sentence);
    }
}

#[track_caller]
fn assert_error(result: Result<Gguf, Error>, prefix: &str, status: ember_status, sentence: &str) {
    let e = result.map(|_| ()).unwrap_err();
    assert_eq!(e.message().strip_prefix(prefix), Some(sentence), "{}", e.message());
    assert_eq!(e.status(), status);
}

#[test]
fn files_that_are_none() {
    let dir =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("gguf-errors-{}", ember::threads::process()));
    std::fs::create_dir_all(&dir).unwrap();
    let empty = dir.join("empty.gguf");
    std::fs::write(&empty, b"").unwrap();
    let missing = dir.join("missing.gguf");
    let cases: [(&Path, ember_status, &str); 3] = [
        (&missing, EMBER_E_IO, "the file does not exist"),
        (&dir, EMBER_E_IO, "this is a directory, expected a file"),
        (&empty, EMBER_E_FORMAT, "the file is empty"),
    ];
    for (path, status, sentence) in cases {
        let prefix = format!("{}: ", path.display());
        assert_error(Gguf::open(path), &prefix, status, sentence);
        assert_error(Gguf::read(path), &prefix, status, sentence);
    }
    assert_error(Gguf::from_bytes(b"", "x"), "x: ", EMBER_E_FORMAT, "the file is empty");
    std::fs::remove_dir_all(&dir).unwrap();
}

#[cfg(target_os = "linux")]
#[test]
fn a_device_is_no_file() {
    let path = Path::new("/dev/zero");
    assert_error(Gguf::open(path), "/dev/zero: ", EMBER_E_IO, "this is not a regular file");
}

#[test]
fn headers() {
    let header = |magic: &[u8], version: u32| Raw(magic.to_vec()).u32(version).u64(0).u64(0);
    header(b"ggjt", 3)
        .refused(EMBER_E_FORMAT, "the magic is \"ggjt\", expected \"GGUF\": this is not a GGUF file");
    header(b"\x80\x02}q", 3)
        .refused(EMBER_E_FORMAT, "the magic is \"�\\u{2}}q\", expected \"GGUF\": this is not a GGUF file");
    header(b"GGUF", 0).refused(EMBER_E_FORMAT, "the GGUF version is 0, which does not exist");
    header(b"GGUF", 1).refused(EMBER_E_UNSUPPORTED, "this is GGUF version 1, Ember reads versions 2 and 3");
    header(b"GGUF", 4).refused(EMBER_E_UNSUPPORTED, "this is GGUF version 4, Ember reads versions 2 and 3");
    header(b"GGUF", 3u32.swap_bytes()).refused(
        EMBER_E_UNSUPPORTED,
        "this is a big-endian GGUF file (version 3), Ember reads little-endian files",
    );
    Raw(b"GGU".to_vec())
        .refused(EMBER_E_FORMAT, "the magic at byte 0 needs 4 bytes, but only 3 are left in the file");
    Raw(b"GGUF\x03\0\0\0\0".to_vec()).refused(
        EMBER_E_FORMAT,
        "the number of tensors at byte 8 needs 8 bytes, but only 1 are left in the file",
    );
    Raw::new(1 << 40, 0)
        .refused(EMBER_E_FORMAT, "the file claims 1099511627776 tensors, but only 8 bytes are left for them");
    Raw::new(0, u64::MAX).refused(
        EMBER_E_FORMAT,
        "the file claims 18446744073709551615 metadata keys, but only 0 bytes are left for them",
    );
}

#[test]
fn counts_beyond_the_limits() {
    let mut keys = Raw::new(0, 65_537);
    keys.0.resize(2_000_000, 0);
    keys.refused(EMBER_E_UNSUPPORTED, "the file has 65537 metadata keys, Ember reads at most 65536");
    let mut tensors = Raw::new(262_145, 0);
    tensors.0.resize(10_000_000, 0);
    tensors.refused(EMBER_E_UNSUPPORTED, "the file has 262145 tensors, Ember reads at most 262144");
}

#[test]
fn keys() {
    let one = || Raw::new(0, 1);
    one()
        .string("")
        .u32(0)
        .u8(0)
        .u8(0)
        .refused(EMBER_E_FORMAT, "metadata key 0: the key has 0 bytes, expected 1 to 65535");
    one()
        .string("k".repeat(65_536))
        .u32(0)
        .u8(0)
        .refused(EMBER_E_FORMAT, "metadata key 0: the key has 65536 bytes, expected 1 to 65535");
    one()
        .string(b"k\xff")
        .u32(0)
        .u8(0)
        .refused(EMBER_E_FORMAT, "metadata key 0: the key \"k�\" is not UTF-8");
    one().u64(100).u32(0).u8(0).u8(0).refused(
        EMBER_E_FORMAT,
        "metadata key 0: the key claims a length of 100 bytes, but only 6 are left in the file",
    );
    Raw::new(0, 2)
        .string("a")
        .u32(0)
        .u8(1)
        .string("a")
        .u32(0)
        .u8(2)
        .refused(EMBER_E_FORMAT, "the metadata key \"a\" appears more than once");
}

#[test]
fn values() {
    let key = || Raw::new(0, 1).string("k");
    let array = |element_type: u32| key().u32(9).u32(element_type);
    key().u32(13).u64(0).refused(
        EMBER_E_FORMAT,
        "the key \"k\": the value's type is 13, which is none of the value types 0 to 12",
    );
    key().u32(7).u8(2).refused(EMBER_E_FORMAT, "the key \"k\": a bool is 2, expected 0 or 1");
    key().u32(10).u32(0).refused(
        EMBER_E_FORMAT,
        "the key \"k\": the value at byte 37 needs 8 bytes, but only 4 are left in the file",
    );
    key().u32(8).u64(u64::MAX).refused(
        EMBER_E_FORMAT,
        "the key \"k\": the value claims a length of 18446744073709551615 bytes, but only 0 are left in the file",
    );
    array(14).u64(1).refused(
        EMBER_E_FORMAT,
        "the key \"k\": the array's element type is 14, which is none of the value types 0 to 12",
    );
    array(6).u64(1 << 40).u32(0).refused(
        EMBER_E_FORMAT,
        "the key \"k\": the file claims 1099511627776 array elements, but only 4 bytes are left for them",
    );
    array(7).u64(2).u8(0).u8(255).refused(EMBER_E_FORMAT, "the key \"k\": a bool is 255, expected 0 or 1");
    array(8).u64(1).u64(7).u32(0).refused(
        EMBER_E_FORMAT,
        "the key \"k\": a string of the array claims a length of 7 bytes, but only 4 are left in the file",
    );
    let five_deep = (0..4).fold(key().u32(9), |raw, _| raw.u32(9).u64(1)).u32(0).u64(1).u8(1);
    five_deep
        .refused(EMBER_E_UNSUPPORTED, "the key \"k\": arrays are nested deeper than 4, the most Ember reads");
    let mut many = array(9).u64(65_537);
    many.0.resize(many.0.len() + 65_537 * 12, 0);
    many.refused(EMBER_E_UNSUPPORTED, "the key \"k\": there are more than 65536 arrays inside arrays");
}

#[test]
fn alignments() {
    let with = |n: u32| Raw::new(0, 1).string("general.alignment").u32(4).u32(n);
    for n in [0, 1, 4, 7, 24, 131_072, u32::MAX] {
        let sentence =
            format!("the key \"general.alignment\" is {n}, expected a power of two from 8 to 65536");
        with(n).refused(EMBER_E_FORMAT, &sentence);
    }
    assert!(Gguf::from_bytes(&with(65_536).0, "good").is_ok());
    Raw::new(0, 1)
        .string("general.alignment")
        .u32(8)
        .string("32")
        .refused(EMBER_E_FORMAT, "the key \"general.alignment\" is a string, expected a u32");
}

#[test]
fn tensors() {
    let refused = |dims: &[u64], ty, offset, status, sentence: &str| {
        Raw::new(1, 0).tensor("t", dims, ty, offset).data(64).refused(status, sentence);
    };
    use EMBER_E_FORMAT as FORMAT;
    refused(&[], 0, 0, FORMAT, "the tensor \"t\" has 0 dimensions, expected 1 to 4");
    refused(&[1; 5], 0, 0, FORMAT, "the tensor \"t\" has 5 dimensions, expected 1 to 4");
    refused(&[4, 0], 0, 0, FORMAT, "the tensor \"t\" has the shape [4, 0], expected sizes of at least 1");
    refused(
        &[33],
        8,
        0,
        FORMAT,
        "the tensor \"t\" has rows of 33 elements, expected a multiple of 32 for Q8_0",
    );
    refused(&[4], 0, 16, FORMAT, "the tensor \"t\" has its data at offset 16, expected a multiple of 32");
    refused(
        &[4],
        99,
        0,
        EMBER_E_UNSUPPORTED,
        "the tensor \"t\" has the type 99 (unknown), which Ember does not know",
    );
    refused(
        &[4],
        4,
        0,
        EMBER_E_UNSUPPORTED,
        "the tensor \"t\" has the type 4 (Q4_2), which Ember does not know",
    );
    // One element more than can be counted.
    let half = 1u64 << (usize::BITS / 2);
    let too_large = format!(
        "the tensor \"t\" has the shape [{half}, {half}], which is more than this machine can address"
    );
    refused(&[half, half], 0, 0, FORMAT, &too_large);
    let cut = |offset: u64, n_bytes: u64| {
        format!(
            "the tensor \"t\" has {n_bytes} bytes of data at offset {offset} after byte 64, but the file ends at byte \
             128: it is cut short or damaged"
        )
    };
    let far = u64::MAX - 31;
    let too_far = match usize::try_from(far) {
        Ok(_) => cut(far, 16),
        Err(_) => format!("the tensor \"t\" has its data at offset {far}, too large for this machine"),
    };
    for (dims, offset, sentence) in [(17, 0, cut(0, 68)), (4, 64, cut(64, 16)), (4, far, too_far)] {
        refused(&[dims], 0, offset, FORMAT, &sentence);
    }
    Raw::new(1, 0)
        .tensor(&"n".repeat(256), &[1], 0, 0)
        .data(4)
        .refused(FORMAT, "tensor 0: the name has 256 bytes, expected 1 to 255");
    Raw::new(1, 0)
        .tensor("", &[1], 0, 0)
        .data(4)
        .refused(FORMAT, "tensor 0: the name has 0 bytes, expected 1 to 255");
    Raw::new(2, 0)
        .tensor("t", &[1], 0, 0)
        .tensor("t", &[1], 0, 32)
        .data(64)
        .refused(FORMAT, "the tensor name \"t\" appears more than once");
    Raw::new(2, 0)
        .tensor("a", &[9], 0, 0)
        .tensor("b", &[1], 0, 32)
        .data(64)
        .refused(FORMAT, "the data of the tensors \"a\" and \"b\" overlap at byte 128");
    Raw::new(2, 0)
        .tensor("a", &[1], 0, 32)
        .tensor("b", &[1], 0, 32)
        .data(64)
        .refused(FORMAT, "the data of the tensors \"a\" and \"b\" overlap at byte 128");
}

#[test]
fn a_vocabulary_alone_needs_no_data_section() {
    let file = Gguf::from_bytes(&Raw::new(0, 1).string("k").u32(0).u8(9).0, "vocabulary").unwrap();
    assert_eq!(file.metadata().u32("k").unwrap(), Some(9));
    assert!(file.tensors().is_empty());
}

#[test]
fn the_writer_refuses_what_no_file_can_say() {
    #[track_caller]
    fn refused(writer: &Writer, sentence: &str) {
        assert_eq!(writer.to_bytes().unwrap_err(), Error::InvalidArgument(sentence.into()));
    }
    let with = |change: fn(&mut Writer) -> &mut Writer| change(&mut Writer::new()).clone();
    refused(&with(|w| w.version(1)), "the GGUF version is 1, expected 2 or 3");
    refused(&with(|w| w.set("", 1u8)), "a metadata key has 0 bytes, expected 1 to 65535");
    refused(&with(|w| w.set("k", 1u8).set("k", 2u8)), "the metadata key \"k\" appears more than once");
    refused(
        &with(|w| w.set("general.alignment", 3u32)),
        "the key \"general.alignment\" is 3, expected a power of two from 8 to 65536",
    );
    refused(
        &with(|w| w.tensor("t", TensorType::F32, &[2], vec![0; 7])),
        "the tensor \"t\" has 7 bytes of data, expected 8",
    );
    refused(
        &with(|w| w.tensor("t", TensorType::F32, &[], vec![])),
        "the tensor \"t\" has the impossible shape []",
    );
    refused(
        &with(|w| w.tensor("t", TensorType(99), &[1], vec![])),
        "the tensor \"t\" has the type 99 (unknown), which Ember does not know",
    );
    refused(
        &with(|w| w.tensor("t", TensorType::I8, &[1], vec![0]).tensor("t", TensorType::I8, &[1], vec![0])),
        "the tensor name \"t\" appears more than once",
    );
    refused(
        &with(|w| w.tensor("", TensorType::I8, &[1], vec![0])),
        "a tensor name has 0 bytes, expected 1 to 255",
    );
}
