"""Files that users and hosts send: DICOM SR files, key images and MRRT templates."""
