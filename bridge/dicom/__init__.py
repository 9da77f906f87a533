"""DICOM: the port, its peers, and the services that modalities and other systems use."""
