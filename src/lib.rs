//! hookgate
