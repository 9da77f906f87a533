"""
Index stored messages again: accessions and patient ids are indexed as their definition reads them.

Before, only the places of the standard were indexed, so that a message whose accession was mapped
from another field was not found by it. Deleting the cursor makes the nodes index every stored
message again in the background; what is indexed already stays.
"""

from alembic import op

revision = "0025"
down_revision = "0023"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("DELETE FROM message_number_cursor WHERE name = 'console'")


def downgrade() -> None:
    """Keep the index: more numbers than before do no harm."""
