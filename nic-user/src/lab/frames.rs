//! Frames
