//! A model hub: its HTTP interface, and the folder that its clients share. Both are those of Hugging Face, whose own client describes them:
//! <https://huggingface.co/docs/huggingface_hub/guides/manage-cache>.
#![forbid(unsafe_code)]

pub mod cache;
pub mod checksum;
pub mod choose;
pub mod client;
pub mod download;
pub mod name;
