//! The instruction-set level of a model: the machine's highest, lowered by option and by `EMBER_ISA`.
//! `scripts/test-isa.sh` takes the list of levels from here.
#![allow(clippy::print_stdout, reason = "the script reads the levels")]

use crate::common;

use std::path::Path;
use std::sync::Arc;

use common::{all_logits, bundled_model, context, fixture, relative_rms};
use ember::context::ContextOptions;
use ember::kernels::{ISA_VARIABLE, Isa};
use ember::model::{LoadOptions, LoadedModel};

/// The highest level that the environment of this test leaves.
fn ceiling() -> Isa {
    let limit = std::env::var(ISA_VARIABLE).ok().filter(|name| !name.is_empty());
    let limit = limit.map(|name| Isa::from_name(&name).expect("EMBER_ISA names a level"));
    Isa::supported().filter(|&isa| limit.is_none_or(|limit| isa <= limit)).last().expect("a level")
}

fn load(path: &Path, isa: Option<Isa>) -> Arc<LoadedModel> {
    let options = LoadOptions { isa, ..LoadOptions::default() };
    Arc::new(LoadedModel::open(path, &options).unwrap_or_else(|e| panic!("{e}")))
}

#[test]
fn levels_of_this_machine() {
    Isa::supported().for_each(|isa| println!("level {}", isa.name()));
    assert_eq!(load(&fixture("models/gpt2-tied.gguf"), None).isa(), ceiling());
}

#[test]
fn the_option_only_lowers() {
    for isa in ember::kernels::ISAS.iter().map(|row| row.isa) {
        let want = Isa::supported().filter(|&other| other <= isa.min(ceiling())).last().expect("a level");
        assert_eq!(load(&fixture("models/gpt2-tied.gguf"), Some(isa)).isa(), want, "limit {isa:?}");
    }
}

/// As in `model_golden.rs`: sums in another order may round an activation of the next layer otherwise.
const ROUNDINGS: f64 = 2e-2;

/// Weights of several formats, the packed ones among them, are used by the level they were packed for.
#[test]
fn contexts_compute_at_the_level_of_their_model() {
    let ids: Vec<u32> = (5..40).collect();
    let mut paths = vec![bundled_model()];
    paths.extend(["q4_0", "q8_0", "q6_k"].map(|format| fixture(&format!("models/quant-{format}.gguf"))));
    for path in paths {
        let logits = |isa| {
            let model = load(&path, Some(isa));
            all_logits(&mut context(&model, &ContextOptions::default()), &ids)
        };
        let scalar = logits(Isa::Scalar);
        for isa in Isa::supported() {
            let error = relative_rms(&logits(isa), &scalar);
            assert!(error < ROUNDINGS, "{}, {isa:?}: relative RMS error {error:.2e}", path.display());
        }
    }
}
