#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hookgate_fuzz::request_body::run(bytes));
