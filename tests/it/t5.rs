//! Keys that files of T5's encoder have or leave out, unlike the fixtures.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use crate::common;

use std::sync::Arc;

use common::parts::Parts;
use common::{all_hidden, context, relative_rms};
use ember::context::{ContextOptions, EmbedOptions};
use ember::error::ember_status::{self, *};
use ember::model::LoadedModel;
use ember::nn::pooling::Pooling;

const BIAS: &str = "enc.blk.0.attn_rel_b.weight";
const BUCKETS: &str = "t5encoder.attention.relative_buckets_count";
const DISTANCE: &str = "t5encoder.attention.relative_max_distance";
const ACTIVATION: &str = "t5encoder.hidden_activation";

fn tokens() -> Vec<u32> {
    (0..150).map(|i| i * 37 % 101).collect()
}

fn load(parts: Parts) -> Arc<LoadedModel> {
    Arc::new(LoadedModel::from_bytes(&parts.bytes(), "t5.gguf").unwrap_or_else(|e| panic!("{e}")))
}

fn hidden(parts: Parts) -> Vec<f32> {
    let options = ContextOptions { n_ctx: 150, ..ContextOptions::default() };
    all_hidden(&mut context(&load(parts), &options), &tokens())
}

#[track_caller]
fn refused(parts: Parts, status: ember_status, culprit: &str) {
    let error = LoadedModel::from_bytes(&parts.bytes(), "t5.gguf").err().expect("an error");
    assert!(error.status() == status && error.message().contains(culprit), "{error:?}");
}

fn plain() -> Parts {
    Parts::of("t5encoder")
}

fn gated() -> Parts {
    Parts::of("t5encoder-gated")
}

#[test]
fn layers_have_a_bias_of_their_own_or_that_of_the_first() {
    let numbers = |factor: f32| (0..36).map(|i| factor * (i % 7) as f32).collect::<Vec<f32>>();
    let first = || plain().f32s(BIAS, &[3, 12], &numbers(0.5));
    let own = |factor: f32| first().f32s("enc.blk.1.attn_rel_b.weight", &[3, 12], &numbers(factor));
    assert_eq!(hidden(own(0.5)), hidden(first()));
    assert_ne!(hidden(own(0.7)), hidden(first()));
    refused(plain().without_tensor(BIAS), EMBER_E_FORMAT, BIAS);
    refused(plain().f32s(BIAS, &[12, 3], &numbers(0.5)), EMBER_E_FORMAT, BIAS);
}

#[test]
fn distances_fall_into_as_many_buckets_as_the_file_says() {
    assert_eq!(hidden(plain().key(DISTANCE, 128u32)), hidden(plain()));
    assert_ne!(hidden(plain().key(DISTANCE, 20u32)), hidden(plain()));
    // Half of 12 buckets are for keys after the query; of 6, distances below 3 have one each.
    refused(plain().key(DISTANCE, 3u32), EMBER_E_UNSUPPORTED, BUCKETS);
    refused(plain().key(DISTANCE, 65_537u32), EMBER_E_UNSUPPORTED, DISTANCE);
    refused(plain().key(BUCKETS, 3u32), EMBER_E_UNSUPPORTED, BUCKETS);
    refused(plain().key(BUCKETS, 13u32), EMBER_E_FORMAT, BIAS);
    refused(plain().without_key(BUCKETS), EMBER_E_FORMAT, BUCKETS);
}

#[test]
fn the_activation_is_that_of_the_file() {
    assert_eq!(hidden(plain().key(ACTIVATION, "relu")), hidden(plain()));
    assert_eq!(hidden(gated().key(ACTIVATION, "gelu_pytorch_tanh")), hidden(gated()));
    let mut seen = Vec::<Vec<f32>>::new();
    for parts in [plain, gated] {
        for name in ["relu", "gelu", "gelu_pytorch_tanh", "silu"] {
            let found = hidden(parts().key(ACTIVATION, name));
            assert!(found.iter().all(|x| x.is_finite()) && !seen.contains(&found), "{name}");
            seen.push(found);
        }
    }
    refused(plain().key(ACTIVATION, "tanh"), EMBER_E_UNSUPPORTED, ACTIVATION);
}

/// The first row of what the encoder gives, and the mean of all.
#[test]
fn texts_are_pooled_as_the_file_or_the_caller_says() {
    let model = load(plain());
    let mut context = context(&model, &ContextOptions { n_ctx: 150, ..ContextOptions::default() });
    let all = all_hidden(&mut context, &tokens());
    let width = all.len() / tokens().len();
    let mean: Vec<f32> = (0..width)
        .map(|i| all.iter().skip(i).step_by(width).map(|&x| f64::from(x)).sum::<f64>() as f32 / 150.0)
        .collect();
    let mut embed = |pooling| {
        let options = EmbedOptions { pooling, normalize: Some(false), ..EmbedOptions::default() };
        context.embed(&[&tokens()], &options).unwrap()
    };
    // The file asks for means.
    for pooling in [None, Some(Pooling::Mean)] {
        assert!(relative_rms(&embed(pooling), &mean) < 1e-6);
    }
    assert_eq!(embed(Some(Pooling::Cls)), all[..width]);
}

/// A file says of itself whether its decoder is to be run.
#[test]
fn a_decoder_in_a_file_of_an_encoder_by_itself_is_refused() {
    refused(
        plain().tensor("dec.output_norm.weight", ember::gguf::TensorType::F32, &[24]),
        EMBER_E_UNSUPPORTED,
        "dec.output_norm",
    );
}

#[cfg(feature = "hf")]
#[test]
fn folders_of_other_classes_are_refused_by_name() {
    use common::{TempFolder, fixture, read_json};
    use ember::model::LoadOptions;
    use serde_json::json;
    let folder = TempFolder::new("t5-folder");
    let from = fixture("hf/t5encoder");
    std::fs::copy(from.join("model.safetensors"), folder.0.join("model.safetensors")).unwrap();
    for classes in [json!(["T5Model"]), json!(["T5ForSequenceClassification"]), json!([]), json!(null)] {
        let mut config = read_json(&from.join("config.json"));
        config["architectures"] = classes;
        folder.write("config.json", config.to_string());
        let error = LoadedModel::open(&folder.0, &LoadOptions::default()).err().unwrap();
        assert_eq!(error.status(), EMBER_E_UNSUPPORTED);
        assert!(
            error.message().contains("\"architectures\"") && error.message().contains("T5EncoderModel"),
            "{error}"
        );
    }
}
