//! Any bytes are a GGUF file or an error; and a file, written again, reads the same.

use ember::gguf::Gguf;
use ember::gguf::writer::Writer;

/// Reads `bytes` and what comes of writing them again.
pub fn run(bytes: &[u8]) {
    let Ok(file) = Gguf::from_bytes(bytes, "fuzz") else {
        return;
    };
    let copy = rewritten(&file);
    let again = Gguf::from_bytes(&copy, "copy").expect("the writer's file reads");
    assert_eq!(rewritten(&again), copy);
}

/// The same keys, values and tensors as the writer lays them out. Goes through every getter on the way.
fn rewritten(file: &Gguf) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.version(file.version());
    let metadata = file.metadata();
    for (key, value) in metadata.iter() {
        let _ = (metadata.bool(key), metadata.i64(key), metadata.f32(key), metadata.str(key));
        let _ = (metadata.u32s(key).is_ok(), metadata.i32s(key).is_ok(), metadata.f32s(key).is_ok());
        if let Ok(Some(strings)) = metadata.strings(key) {
            assert_eq!(strings.iter().count(), strings.len());
        }
        assert!(metadata.get(key).is_some());
        writer.set(key, value.clone());
    }
    for tensor in file.tensors() {
        assert_eq!(file.tensor(&tensor.name), Some(tensor));
        writer.tensor(&tensor.name, tensor.ty, &tensor.dims, file.tensor_bytes(tensor).to_vec());
    }
    writer.to_bytes().expect("what was read can be written")
}
