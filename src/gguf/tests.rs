//! What the writer writes, the reader reads, and the typed getters give.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use super::writer::Writer;
use super::*;

/// A key of every type, arrays of every type, and nested arrays.
fn every_value() -> Vec<(&'static str, Value)> {
    let strings = StringArray::copy(&[&b"a"[..], b"", b"\xff\xfe", "ü".as_bytes()]).unwrap();
    vec![
        ("u8", 255u8.into()),
        ("i8", (-128i8).into()),
        ("u16", 65_535u16.into()),
        ("i16", (-32_768i16).into()),
        ("u32", u32::MAX.into()),
        ("i32", i32::MIN.into()),
        ("f32", 1.5f32.into()),
        ("bool", true.into()),
        ("string", "ein Schlüssel".into()),
        ("empty", "".into()),
        ("u64", u64::MAX.into()),
        ("i64", i64::MIN.into()),
        ("f64", 1e300.into()),
        ("u8s", vec![0u8, 1, 255].into()),
        ("i8s", vec![-1i8, 1].into()),
        ("u16s", vec![1u16, 65_535].into()),
        ("i16s", vec![-1i16].into()),
        ("u32s", vec![1u32, u32::MAX].into()),
        ("i32s", vec![-1i32, 7].into()),
        ("f32s", vec![0.5f32, -0.0, f32::INFINITY].into()),
        ("bools", vec![true, false, true].into()),
        ("strings", strings.clone().into()),
        ("u64s", vec![u64::MAX].into()),
        ("i64s", vec![i64::MIN, 0].into()),
        ("f64s", vec![1e300, 2.0].into()),
        ("none", Vec::<u32>::new().into()),
        ("no strings", StringArray::copy::<&str>(&[]).unwrap().into()),
        (
            "nested",
            Array::Array(vec![Array::Array(vec![Array::U8(vec![1, 2])]), Array::String(strings)]).into(),
        ),
    ]
}

/// Fingerprints in saved states depend on it.
#[test]
fn strings_that_need_not_be_utf_8_are_written_as_lossy_texts_are() {
    let all: String = (0..=0x10_ffff).filter_map(char::from_u32).collect();
    let strings: [&[u8]; 6] = [
        b"",
        b"it's \"a\"\\",
        b"\xff\xfe",
        b"a\xe2\x82b\xf0\x9f\x98",
        "é\u{301}\u{200d}".as_bytes(),
        all.as_bytes(),
    ];
    let lossy: Vec<_> = strings.iter().map(|s| String::from_utf8_lossy(s)).collect();
    assert_eq!(format!("{:?}", StringArray::copy(&strings).unwrap()), format!("{lossy:?}"));
}

#[test]
fn every_value_round_trips() {
    for version in [2, 3] {
        for alignment in [8u32, 32, 64, 4096] {
            let mut writer = Writer::new();
            writer.version(version).set("general.alignment", alignment);
            let values = every_value();
            values.iter().for_each(|(key, value)| _ = writer.set(key, value.clone()));
            writer.tensor("a", TensorType::F32, &[3], (0..12).collect());
            writer.tensor("b", TensorType::Q8_0, &[64, 2, 1, 3], vec![7; 2 * 34 * 6]);
            writer.tensor("c", TensorType::F16, &[1], vec![8, 9]);

            let file = Gguf::from_bytes(&writer.to_bytes().unwrap(), "round trip").unwrap();
            assert_eq!(file.version(), version);
            assert_eq!(file.metadata().len(), values.len() + 1);
            for ((key, value), expected) in file.metadata().iter().skip(1).zip(&values) {
                assert_eq!((key, value), (expected.0, &expected.1));
                assert_eq!(file.metadata().get(key), Some(value));
            }
            assert_eq!(file.tensors().len(), 3);
            let b = file.tensor("b").unwrap();
            assert_eq!((b.ty, &*b.dims), (TensorType::Q8_0, &[64, 2, 1, 3][..]));
            assert_eq!(file.tensor_bytes(b), [7; 2 * 34 * 6]);
            assert_eq!(file.tensor_bytes(&file.tensors()[0]), (0..12).collect::<Vec<u8>>());
            assert_eq!(file.tensor_bytes(file.tensor("c").unwrap()), [8, 9]);
            assert!(file.tensors().iter().all(|t| t.offset.is_multiple_of(alignment as usize)));
            assert_eq!(file.tensor("d"), None);
        }
    }
}

#[cfg(not(target_family = "wasm"))] // which has no folder for temporary files
#[test]
fn a_file_is_the_same_mapped_and_read() {
    let path = std::env::temp_dir().join(format!("ember-gguf-{}.gguf", std::process::id()));
    let mut writer = Writer::new();
    writer.set("general.name", "x").tensor("t", TensorType::F32, &[2], vec![1; 8]);
    writer.write(&path).unwrap();
    for file in [Gguf::open(&path).unwrap(), Gguf::read(&path).unwrap()] {
        assert_eq!(file.name(), path.to_str().unwrap());
        assert_eq!(file.metadata().str("general.name").unwrap(), Some("x"));
        assert_eq!(file.tensor_bytes(&file.tensors()[0]), [1; 8]);
        assert_eq!(file.file_of(&file.tensors()[0])[..], writer.to_bytes().unwrap()[..]);
        assert_eq!(file.file_size(), writer.to_bytes().unwrap().len() as u64);
    }
    std::fs::remove_file(&path).unwrap();
}

/// Data that comes when the file is written gives the same file, and data that is missing or does not fit is named.
#[test]
fn data_may_come_later() {
    let (mut whole, mut later) = (Writer::new(), Writer::new());
    whole.tensor("a", TensorType::F32, &[3], vec![1; 12]).tensor("b", TensorType::F32, &[2], vec![2; 8]);
    later.tensor_later("a", TensorType::F32, &[3]).tensor("b", TensorType::F32, &[2], vec![2; 8]);
    assert_eq!(later.to_bytes_with(|i| Ok(vec![i as u8 + 1; 12])), whole.to_bytes());
    let refused = later.to_bytes().unwrap_err();
    assert_eq!(refused, Error::InvalidArgument("the tensor \"a\" has no data".into()));
    let refused = later.to_bytes_with(|_| Ok(vec![0; 11])).unwrap_err();
    assert_eq!(refused.message(), "the tensor \"a\" has 11 bytes of data, expected 12");
    let cancelled = || Error::Cancelled("no more".into());
    assert_eq!(later.to_bytes_with(|_| Err(cancelled())), Err(cancelled()));
}

#[test]
fn getters_convert_what_fits_and_refuse_the_rest() {
    let mut writer = Writer::new();
    every_value().into_iter().for_each(|(key, value)| _ = writer.set(key, value));
    writer.set("bad utf-8", Value::String(GgufString::copy(b"a\xff")));
    let file = Gguf::from_bytes(&writer.to_bytes().unwrap(), "getters").unwrap();
    let m = file.metadata();

    assert_eq!(m.u32("u8"), Ok(Some(255)));
    assert_eq!(m.u64("u64"), Ok(Some(u64::MAX)));
    assert_eq!(m.i64("i8"), Ok(Some(-128)));
    assert_eq!(m.f64("f32"), Ok(Some(1.5)));
    assert_eq!(m.bool("bool"), Ok(Some(true)));
    assert_eq!(m.str("string"), Ok(Some("ein Schlüssel")));
    assert_eq!(m.i32s("i8s").unwrap().unwrap()[..], [-1, 1]);
    assert_eq!(m.u32s("u32s").unwrap().unwrap()[..], [1, u32::MAX]);
    assert_eq!(m.f32s("f32s").unwrap().unwrap()[..], [0.5, -0.0, f32::INFINITY]);
    let strings = m.require_strings("strings").unwrap();
    assert_eq!(strings.iter().collect::<Vec<_>>(), [&b"a"[..], b"", b"\xff\xfe", "ü".as_bytes()]);
    assert_eq!((strings.get(3), strings.get(4)), (Some("ü".as_bytes()), None));
    assert_eq!(m.u32("absent"), Ok(None));
    assert!(m.f32s("absent").unwrap().is_none());

    let refused = [
        (m.u32("string").err(), "the key \"string\" is a string, expected a u32"),
        (m.u32("i8").err(), "the key \"i8\" has the value -128, which does not fit a u32"),
        (m.i64("f32").err(), "the key \"f32\" is an f32, expected an i64"),
        (m.f32("u8").err(), "the key \"u8\" is a u8, expected an f32"),
        (m.bool("u8").err(), "the key \"u8\" is a u8, expected a bool"),
        (m.str("strings").err(), "the key \"strings\" is an array of strings, expected a string"),
        (m.str("bad utf-8").err(), "the key \"bad utf-8\" is \"a�\", which is not UTF-8"),
        (m.strings("u8s").err(), "the key \"u8s\" is an array of u8s, expected an array of strings"),
        (m.strings("u8").err(), "the key \"u8\" is a u8, expected an array of strings"),
        (m.i32s("u32s").err(), "the key \"u32s\" has the value 4294967295, which does not fit an i32"),
        (m.u32s("f32s").err(), "the key \"f32s\" is an array of f32s, expected an array of u32s"),
        (m.f32s("i32s").err(), "the key \"i32s\" is an array of i32s, expected an array of f32s"),
        (m.require_u32("absent").err(), "the required key \"absent\" is missing"),
    ];
    for (found, expected) in refused {
        assert_eq!(found, Some(Error::Format(expected.into())));
    }
    assert!(m.f32("f64").unwrap_err().message().ends_with("which does not fit an f32"));
    assert!(m.f32s("f64s").unwrap_err().message().ends_with("which does not fit an f32"));
}

#[test]
fn parts_become_a_model_or_a_sentence() {
    let files = || {
        vec![
            Arc::new(FileBytes::copy(&[1, 2, 3, 4], &Memory::default()).unwrap()),
            Arc::new(FileBytes::copy(&[9; 8], &Memory::default()).unwrap()),
        ]
    };
    let model = |metadata: &[(&str, Value)], tensors: &[TensorInfo]| {
        let metadata = metadata.iter().map(|(key, value)| ((*key).into(), value.clone())).collect();
        Gguf::from_parts(Parts {
            name: "m".into(),
            metadata,
            tensors: tensors.to_vec(),
            files: files(),
            file_size: 7,
            further: Further::default(),
        })
    };
    let tensor = |name: &str, dims: &[usize], file, offset| {
        TensorInfo::new(name, TensorType::F16, dims, file, offset).unwrap()
    };
    let (a, b) = (tensor("a", &[2], 0, 0), tensor("b", &[1, 3], 1, 2));
    let gguf = model(&[("k", 3u32.into())], &[a.clone(), b.clone()]).unwrap();
    assert_eq!((gguf.name(), gguf.file_size()), ("m", 7));
    assert_eq!(gguf.metadata().u32("k"), Ok(Some(3)));
    assert_eq!(gguf.tensor_bytes(gguf.tensor("a").unwrap()), [1, 2, 3, 4]);
    assert_eq!(gguf.tensor_bytes(gguf.tensor("b").unwrap()), [9; 6]);

    let refused = |metadata: &[(&str, Value)], tensors: &[TensorInfo], sentence: &str| {
        assert_eq!(model(metadata, tensors).map(|_| ()), Err(Error::Format(format!("m: {sentence}"))));
    };
    let key = ("k", Value::from(1u32));
    refused(&[key.clone(), key], &[], "the metadata key \"k\" appears more than once");
    refused(&[], &[a.clone(), a.clone()], "the tensor name \"a\" appears more than once");
    refused(&[], &[tensor("", &[1], 0, 0)], "the tensor \"\" has 0 bytes, expected 1 to 255");
    refused(&[], &[tensor("c", &[1], 2, 0)], "the tensor \"c\" lies in file number 2, but there are 2 files");
    for (offset, tensor) in [1, 5, usize::MAX].map(|offset| (offset, tensor("a", &[2], 0, offset))) {
        let sentence =
            format!("the tensor \"a\" has 4 bytes of data at offset {offset}, but its file has 4 bytes");
        refused(&[], &[tensor], &sentence);
    }
    let longer = TensorInfo { n_bytes: 5, ..b };
    refused(&[], &[longer], "the tensor \"b\" has 5 bytes of data, expected 6");
    assert!(TensorInfo::new("x", TensorType::Q8_0, &[33], 0, 0).is_err());
    assert!(TensorInfo::new("x", TensorType(99), &[32], 0, 0).is_err());
    assert!(TensorInfo::new("x", TensorType::F32, &[0], 0, 0).is_err());
}
